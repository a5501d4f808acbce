-- Asks Tidegate whether a request may pass: `http-request lua.tidegate`, for HAProxy 2.6
-- and later, which bring the HTTP client along. A refusal is given to the client as Tidegate
-- made it: status, fields and body. See haproxy.cfg beside this file.

-- Where Tidegate listens, as HAProxy writes addresses.
local SOCKET = "unix@/run/tidegate/http.sock"
-- How long to wait for it, in milliseconds.
local TIMEOUT = 250
-- What becomes of a request when Tidegate is gone or late: it passes, or is a 503.
local PASS_UNASKED = true
-- The most lines of a request's head. HAProxy takes 101 by default, and its client must not be
-- given as many, or all of HAProxy ends.
local MOST_LINES = 80

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
    ["host"] = true,
    ["x-forwarded-method"] = true,
    ["x-forwarded-uri"] = true,
    ["x-forwarded-host"] = true,
}

local function refuse(txn, status, headers, body)
    local reply = txn:reply({ status = status })
    for name, values in pairs(headers) do
        -- Lengths and the like are HAProxy's own to say.
        if name ~= "content-length" and name ~= "connection" and name ~= "date" then
            for _, value in pairs(values) do
                reply:add_header(name, value)
            end
        end
    end
    reply:set_body(body or "")
    txn:done(reply)
end

core.register_action("tidegate", { "http-req" }, function(txn)
    local headers = {}
    local count = 0
    local host
    for name, values in pairs(txn.http:req_get_headers()) do
        if name == "host" then
            host = values[0]
        end
        if not DROPPED[name] then
            -- HAProxy numbers lines from 0, and its client from 1.
            local lines = {}
            for number = 0, #values do
                lines[#lines + 1] = values[number]
            end
            count = count + #lines
            headers[name] = lines
        end
    end
    if count > MOST_LINES then
        refuse(txn, 431, {}, "")
        return
    end
    headers["host"] = { "tidegate" }
    headers["x-forwarded-method"] = { txn.f:method() }
    headers["x-forwarded-uri"] = { txn.f:pathq() }
    if host then
        headers["x-forwarded-host"] = { host }
    end

    -- from=forwarded: only the fields above describe the request. ip: the client, as HAProxy
    -- sees it; where another proxy stands before it, name that one in Tidegate's
    -- trusted_proxies.
    local url = "http://tidegate/v1/authorize?from=forwarded&ip=" .. tostring(txn.f:src())
    local asked, answer = pcall(function()
        return core.httpclient():get({ url = url, headers = headers, dst = SOCKET, timeout = TIMEOUT })
    end)

    -- Without an answer HAProxy's client makes up one, which is not JSON with a date.
    if not asked or not answer or not answer.headers or not answer.headers["date"] then
        core.Alert("tidegate: no answer from " .. SOCKET)
        if not PASS_UNASKED then
            refuse(txn, 503, { ["retry-after"] = { "1" } }, "")
        end
        return
    end
    if answer.status ~= 200 then
        refuse(txn, answer.status, answer.headers, answer.body)
        return
    end
    for name, variable in pairs(TOLD) do
        local values = answer.headers[name]
        if values then
            txn:set_var(variable, values[0])
        end
    end
end)
