// ioredis: asks 1,000 times in one pipeline and prints the replies as JSON.

const Redis = require("ioredis");

const [path, protocol] = process.argv.slice(2);
// `default` is what a client does that is told nothing; it knows no other protocol.
if (protocol !== "default") throw new Error(`protocol ${protocol}`);
const client = new Redis(path);
const pipeline = client.pipeline();
for (let n = 0; n < 1000; n++) {
  pipeline.call("TG.CHECK", n % 10 === 9 ? "none" : "orders", "alice", n % 3);
}
pipeline.exec().then((replies) => {
  console.log(JSON.stringify(replies.map(([error, reply]) => (error ? error.message : reply))));
  client.disconnect();
});
