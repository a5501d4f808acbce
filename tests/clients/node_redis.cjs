// node-redis: asks 1,000 times at once, which it sends as one pipeline, and prints the
// replies as JSON.

const { createClient } = require("redis");

const [path, protocol] = process.argv.slice(2);
// `default` is what a client does that is told nothing.
const options = protocol === "default" ? {} : { RESP: Number(protocol) };
const client = createClient({ socket: { path }, ...options });
client.on("error", (error) => {
  console.error(error);
  process.exit(1);
});
client.connect().then(async () => {
  const asked = Array.from({ length: 1000 }, (_, n) =>
    client.sendCommand(["TG.CHECK", n % 10 === 9 ? "none" : "orders", "alice", String(n % 3)]),
  );
  const replies = await Promise.allSettled(asked);
  console.log(JSON.stringify(replies.map((reply) => reply.value ?? reply.reason.message)));
  client.destroy();
});
