-- Stands in for Kong and the HTTP client that it brings along, as far as the functions of
-- config/kong/kong.yaml call them: lua5.1 kong.lua ACCESS HEADER_FILTER METHOD PATH IP
-- [NAME VALUE]… runs them as Kong would for that request, and prints what its client is told.

local access, header_filter, method, path, ip = arg[1], arg[2], arg[3], arg[4], arg[5]

local headers = {}
for number = 6, #arg, 2 do
    local name, value = arg[number]:lower(), arg[number + 1]
    local before = headers[name]
    if type(before) == "table" then
        before[#before + 1] = value
    else
        headers[name] = before and { before, value } or value
    end
end

local function quoted(text)
    return "'" .. text:gsub("'", "'\\''") .. "'"
end

local client = {}
client.__index = client

function client.set_timeouts(self, connect, send, read)
    assert(connect > 0 and send > 0 and read > 0)
end

function client.connect(self, options)
    self.socket = assert(options.host:match("^unix:(/.*)$"))
    return true
end

function client.request(self, asked)
    local command = { "curl -si --max-time 5 --unix-socket", quoted(self.socket), "-X", asked.method }
    for name, value in pairs(asked.headers) do
        for _, line in ipairs(type(value) == "table" and value or { value }) do
            command[#command + 1] = "-H " .. quoted(name .. ": " .. line)
        end
    end
    command[#command + 1] = quoted("http://tidegate" .. asked.path)
    local pipe = assert(io.popen(table.concat(command, " ")))
    local text = pipe:read("*a")
    pipe:close()
    local status = tonumber(text:match("^HTTP/1.1 (%d+)"))
    if not status then
        return nil, "connection refused"
    end
    local head, body = text:match("^(.-)\r\n\r\n(.*)$")
    local lines = {}
    for name, value in head:gmatch("\r\n([^:]+): ([^\r]*)") do
        lines[name:lower()] = value
    end
    -- Kong's client finds fields whatever the case of their names.
    setmetatable(lines, { __index = function(all, name) return rawget(all, name:lower()) end })
    return { status = status, headers = lines, read_body = function() return body end }
end

function client.set_keepalive(self, time, size)
    assert(time > 0 and size > 0)
end

local done = {}
local told = {}
kong = {
    ctx = { shared = {} },
    log = { err = function(...) io.stderr:write(...) end },
    client = { get_ip = function() return ip end },
    request = {
        get_headers = function(most) assert(most <= 1000) return headers end,
        get_method = function() return method end,
        get_path_with_query = function() return path end,
        get_host = function() return headers["host"] end,
    },
    response = {
        exit = function(status, body, fields)
            print(status)
            for name, value in pairs(fields or {}) do
                print(name .. ": " .. value)
            end
            print("\n" .. (body or ""))
            error(done)
        end,
        set_header = function(name, value) told[name] = value end,
    },
}

function require(name)
    -- All that the sandbox of Kong is asked to allow.
    assert(name == "resty.http", name)
    return { new = function() return setmetatable({}, client) end }
end

local ok, why = pcall(assert(loadfile(access)))
if not ok then
    assert(why == done, why)
    return
end
assert(loadfile(header_filter))()
print(200)
for name, value in pairs(told) do
    print(name .. ": " .. value)
end
print("")
