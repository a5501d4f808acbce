-- Asks Tidegate whether a request may pass: `http-request lua.tidegate`, for HAProxy 2.6
-- and later. A refusal is given to the client as Tidegate made it: status, fields and body.
-- See haproxy.cfg beside this file.
--
-- It asks by a socket of its own, and not by the HTTP client of HAProxy, which asks again when
-- an answer is late, so that Tidegate would count a request several times.

-- Where Tidegate listens, as HAProxy writes addresses.
local SOCKET = "unix@/run/tidegate/http.sock"
-- How long to wait for it, in seconds.
local TIMEOUT = 0.25
-- What becomes of a request when Tidegate is gone or late: it passes, or is a 503.
local PASS_UNASKED = true
-- The most lines of a request's head; Tidegate takes 100.
local MOST_LINES = 90

-- The fields that clients are told, and the variables that keep them until there is a
-- response to put them in.
local TOLD = {
    ["x-ratelimit-limit"] = "txn.tidegate_limit",
    ["x-ratelimit-remaining"] = "txn.tidegate_remaining",
    ["x-ratelimit-reset"] = "txn.tidegate_reset",
    ["ratelimit-policy"] = "txn.tidegate_policy",
    ["ratelimit"] = "txn.tidegate_left",
    ["x-ratelimit-warning"] = "txn.tidegate_warning",
}

-- Fields of the client's request that are about its own connection or body, or that are
-- set below.
local DROPPED = {
    ["connection"] = true,
    ["content-length"] = true,
    ["expect"] = true,
    ["keep-alive"] = true,
    ["te"] = true,
    ["trailer"] = true,
    ["transfer-encoding"] = true,
    ["upgrade"] = true,
    ["x-forwarded-method"] = true,
    ["x-forwarded-uri"] = true,
    ["x-forwarded-host"] = true,
}

-- Sends the head of a request, and reads the whole answer: its status, fields and body, or
-- nothing. Tidegate says how long its bodies are.
local function ask(head)
    local socket = core.tcp()
    socket:settimeout(TIMEOUT)
    if not socket:connect(SOCKET) or not socket:send(head) then
        socket:close()
        return
    end
    local line = socket:receive("*l")
    local status = line and tonumber(line:match("^HTTP/1%.1 (%d%d%d)"))
    local fields = {}
    while status do
        line = socket:receive("*l")
        if not line then
            status = nil
        elseif line == "" then
            break
        else
            local name, value = line:match("^([^:]+):%s*(.*)$")
            if name then
                fields[name:lower()] = value
            end
        end
    end
    local length = status and tonumber(fields["content-length"]) or 0
    local body = length > 0 and socket:receive(length) or ""
    socket:close()
    return status, fields, body
end

local function refuse(txn, status, fields, body)
    local reply = txn:reply({ status = status })
    for name, value in pairs(fields) do
        -- Lengths and the like are HAProxy's own to say.
        if name ~= "content-length" and name ~= "connection" and name ~= "date" then
            reply:add_header(name, value)
        end
    end
    reply:set_body(body)
    txn:done(reply)
end

-- The second of the last complaint: one is enough.
local complained

core.register_action("tidegate", { "http-req" }, function(txn)
    -- from=forwarded: only the fields that are set here describe the request. ip: the client,
    -- as HAProxy sees it; where another proxy stands before it, name that one in Tidegate's
    -- trusted_proxies.
    local client = tostring(txn.f:src())
    -- `*` and the authority of a CONNECT are no paths: HAProxy has none then, and an error in
    -- this function would let the request pass.
    local path = txn.f:pathq() or "/"
    local head = {
        "GET /v1/authorize?from=forwarded&ip=" .. client .. " HTTP/1.1",
        "host: tidegate",
        "connection: close",
        "x-forwarded-method: " .. txn.f:method(),
        "x-forwarded-uri: " .. path,
    }
    for name, values in pairs(txn.http:req_get_headers()) do
        if name == "host" then
            head[#head + 1] = "x-forwarded-host: " .. values[0]
        elseif not DROPPED[name] then
            -- HAProxy numbers lines from 0.
            for number = 0, #values do
                head[#head + 1] = name .. ": " .. values[number]
            end
        end
    end
    if #head > MOST_LINES then
        refuse(txn, 431, {}, "")
        return
    end

    local status, fields, body = ask(table.concat(head, "\r\n") .. "\r\n\r\n")
    if not status then
        local now = core.now().sec
        if now ~= complained then
            complained = now
            core.Alert("tidegate: no answer from " .. SOCKET)
        end
        if not PASS_UNASKED then
            refuse(txn, 503, { ["retry-after"] = "1" }, "")
        end
    elseif status ~= 200 then
        refuse(txn, status, fields, body)
    else
        for name, variable in pairs(TOLD) do
            if fields[name] then
                txn:set_var(variable, fields[name])
            end
        end
    end
end)
