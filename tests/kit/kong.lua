-- Stands in, within nginx and its Lua module, on which Kong is built, for what the functions of
-- config/kong/kong.yaml call of Kong and of the HTTP client that it brings along.

local client = {}
client.__index = client

function client.set_timeouts(self, connect, send, read)
    self.socket:settimeouts(connect, send, read)
end

function client.connect(self, options)
    assert(options.host:match("^unix:/"))
    return self.socket:connect(options.host)
end

-- Fields whatever the case of their names; some versions take `_` for `-`.
local function spelled(name)
    return name:lower():gsub("_", "-")
end

function client.request(self, asked)
    local fields = {}
    for name, value in pairs(asked.headers) do
        fields[spelled(name)] = value
    end
    local head = { asked.method .. " " .. asked.path .. " HTTP/1.1" }
    for name, value in pairs(fields) do
        for _, line in ipairs(type(value) == "table" and value or { value }) do
            head[#head + 1] = name .. ": " .. line
        end
    end
    head[#head + 1] = "\r\n"
    local sent, why = self.socket:send(table.concat(head, "\r\n"))
    if not sent then
        return nil, why
    end
    local line
    line, why = self.socket:receive("*l")
    if not line then
        return nil, why
    end
    local answer = { status = tonumber(line:match("^HTTP/1.1 (%d+)")) }
    local lines = {}
    repeat
        line, why = self.socket:receive("*l")
        if not line then
            return nil, why
        end
        local name, value = line:match("^([^:]+):%s*(.*)$")
        if name then
            lines[spelled(name)] = value
        end
    until line == ""
    answer.headers = setmetatable({}, { __index = function(_, name) return lines[spelled(name)] end })
    function answer.read_body()
        return self.socket:receive(tonumber(lines["content-length"]))
    end
    return answer
end

function client.set_keepalive(self, time, size)
    return self.socket:setkeepalive(time, size)
end

package.loaded["resty.http"] = {
    new = function() return setmetatable({ socket = ngx.socket.tcp() }, client) end,
}

kong = {
    ctx = { shared = setmetatable({}, {
        __index = function(_, name) return ngx.ctx[name] end,
        __newindex = function(_, name, value) ngx.ctx[name] = value end,
    }) },
    log = { err = function(...) ngx.log(ngx.ERR, ...) end },
    client = { get_ip = function() return ngx.var.remote_addr end },
    request = {
        get_headers = function(most) assert(most <= 1000) return ngx.req.get_headers(most) end,
        get_method = ngx.req.get_method,
        get_path_with_query = function() return ngx.var.request_uri end,
        get_host = function() return ngx.var.host end,
    },
    response = {
        exit = function(status, body, fields)
            ngx.status = status
            for name, value in pairs(fields or {}) do
                ngx.header[name] = value
            end
            ngx.header["Content-Length"] = #(body or "")
            ngx.print(body or "")
            return ngx.exit(status)
        end,
        set_header = function(name, value) ngx.header[name] = value end,
    },
}
