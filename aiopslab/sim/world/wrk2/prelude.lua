-- What a wrk2 script finds when it is loaded, in Lua 5.1. The host has put these in before: `host_seed`, `host_now`,
-- `host_file` (text of a file of the container, or nil), `host_write`, and the table `wrk` filled from the command
-- line. Nothing here reaches the machine: `os` and `io` are what follows; `debug`, coroutines (which would escape the
-- instruction limit) and bytecode are gone.

local now, file, write, sethook = host_now, host_file, host_write, debug.sethook
host_now, host_file, host_write = nil, nil, nil

-- Every call of the host into the script has a budget of instructions; one that is spent stays spent.
local function limited(instructions)
  sethook(function()
    sethook(function() error("script runs for too long", 0) end, "", 1000)
    error("script runs for too long", 0)
  end, "", instructions)
end

-- Park and Miller's generator: exact in doubles, so every machine draws the same numbers.
local seed, state = host_seed, host_seed % 2147483646 + 1
host_seed = nil
math.randomseed = function(x)
  state = (math.floor(math.abs(x or 0)) + seed) % 2147483646 + 1
end
math.random = function(low, high)
  state = state * 16807 % 2147483647
  local share = (state - 1) / 2147483646
  if low == nil then return share end
  if high == nil then low, high = 1, low end
  if high < low then error("bad argument #1 to 'random' (interval is empty)", 2) end
  return low + math.floor(share * (high - low + 1))
end

local function clock() return now() end
local function reader(text)
  local at = 1
  local handle = {}
  function handle:read(what)
    what = tostring(what or "*l"):gsub("^%*", "")
    if what:sub(1, 1) == "a" then
      local rest = text:sub(at)
      at = #text + 1
      return rest
    end
    if at > #text then return nil end
    if what:sub(1, 1) == "n" then
      local first, last = text:find("%S+", at)
      at = (last or #text) + 1
      return first and tonumber(text:sub(first, last)) or nil
    end
    local stop = text:find("\n", at, true) or #text + 1
    local line = text:sub(at, stop - 1)
    at = stop + 1
    return line
  end
  function handle:lines() return function() return handle:read("*l") end end
  function handle:close() return true end
  return handle
end

os = { time = function() return math.floor(clock()) end, clock = clock, getenv = function() return nil end }
io = {
  write = function(...)
    for i = 1, select("#", ...) do write(tostring((select(i, ...)))) end
    return io.stdout
  end,
  open = function(name, mode)
    local text = (mode or "r"):sub(1, 1) == "r" and file(name) or nil
    if text == nil then return nil, name .. ": No such file or directory", 2 end
    return reader(text)
  end,
  lines = function(name)
    local handle = assert(io.open(name))
    return handle:lines()
  end,
}
io.stdout = { write = function(self, ...) return io.write(...) end, flush = function() end }
io.stderr = { write = function() end, flush = function() end }
print = function(...)
  local words = {}
  for i = 1, select("#", ...) do words[i] = tostring((select(i, ...))) end
  write(table.concat(words, "\t") .. "\n")
end

local source = loadstring
loadstring = function(text, name)
  if tostring(text):byte(1) == 27 then return nil, "bytecode is not loaded" end
  return source(text, name)
end
load, debug, package, module, newproxy, python = nil, nil, nil, nil, nil, nil
string.dump, coroutine = nil, nil
loadfile = function(name)
  local text = file(name)
  if text == nil then return nil, "cannot open " .. tostring(name) end
  return loadstring(text, "@" .. name)
end
dofile = function(name) return assert(loadfile(name))() end
collectgarbage = function() return 0 end

local modules = { socket = { gettime = clock, sleep = function() end } }
require = function(name)
  if name == "wrk" then return wrk end
  if modules[name] == nil then error("module '" .. tostring(name) .. "' not found", 2) end
  return modules[name]
end

wrk.method, wrk.body = "GET", nil
wrk.lookup = function(host, service) return { host .. ":" .. service } end
wrk.connect = function() return true end
function wrk.format(method, path, headers, body)
  method, path, body = method or wrk.method, path or wrk.path, body or wrk.body
  headers = headers or wrk.headers
  local names, lines = {}, { method .. " " .. path .. " HTTP/1.1" }
  local all = {}
  for name, value in pairs(headers) do all[name] = value end
  all.Host = all.Host or wrk.headers.Host
  if body then all["Content-Length"] = #body end
  for name in pairs(all) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do lines[#lines + 1] = name .. ": " .. tostring(all[name]) end
  return table.concat(lines, "\r\n") .. "\r\n\r\n" .. (body or "")
end

-- The face towards the host: start a thread, take the next requests, hand answers over, end.
local CALL, REQUEST = 5e7, 2e6 -- instructions
local KEPT = 20000 -- texts that are remembered; scripts may make every request another one
local numbers, known, kept = {}, 0, 0
local driver = {}
function driver.load(text, name)
  limited(CALL)
  local chunk, problem = loadstring(text, "@" .. name)
  if chunk == nil then error(problem, 0) end
  chunk()
end
function driver.begin(arguments)
  limited(CALL)
  if wrk.headers.Host == nil then wrk.headers.Host = wrk.port and wrk.host .. ":" .. wrk.port or wrk.host end
  if type(init) == "function" then init(arguments) end
  local fixed = wrk.format()
  wrk.request = function() return fixed end
end
function driver.setup(thread)
  limited(CALL)
  if type(setup) == "function" then setup(thread) end
end
function driver.has(name) return type(_G[name]) == "function" end
function driver.get(name) return _G[name] end
function driver.set(name, value) _G[name] = value end
-- The numbers of the next `count` requests, and the texts that had no number before.
function driver.take(count)
  limited(REQUEST * (count + 1))
  if kept > KEPT then numbers, kept = {}, 0 end
  local found, fresh = {}, {}
  for i = 1, count do
    local text = type(request) == "function" and request() or wrk.request()
    local number = numbers[text]
    if number == nil then
      if type(text) ~= "string" then error("request is not a string") end
      number, known, kept = known, known + 1, kept + 1
      numbers[text], fresh[#fresh + 1] = number, text
    end
    found[i] = number
  end
  return found, fresh
end
function driver.answers(statuses, size)
  limited(REQUEST * (#statuses + 1))
  for i = 1, #statuses do
    response(statuses[i], { ["Content-Length"] = tostring(size), ["Content-Type"] = "text/html; charset=utf-8" }, "")
  end
end
local function statistics(values, mean, stdev)
  local meta = {}
  local function percentile(_, p) return values[math.max(1, math.ceil(p / 100 * #values))] or 0 end
  function meta.__index(_, key)
    if type(key) == "number" then return values[key], 1 end
    return ({ min = values[1] or 0, max = values[#values] or 0, mean = mean, stdev = stdev, percentile = percentile })[key]
  end
  function meta.__call(_, i) return values[i], 1 end
  function meta.__len() return #values end
  return setmetatable({}, meta)
end
function driver.finish(summary, latency, rates)
  limited(CALL)
  done(summary, statistics(latency.values, latency.mean, latency.stdev), statistics(rates.values, rates.mean, rates.stdev))
end
return driver
