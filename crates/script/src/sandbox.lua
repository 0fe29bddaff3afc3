-- What scripts find: nothing beyond what Redis gives them, and nothing that they could change.
local native = ...
local error, pairs, raising, setmetatable, setreadonly, tostring, type =
    error, pairs, raising, setmetatable, setreadonly, tostring, type
local globals = _G

local redis = {}
for name, value in pairs(native.redis) do
    redis[name] = type(value) == 'function' and raising(value) or value
end
for name, value in pairs(native.calls) do
    redis[name] = value
end
globals.redis = redis
globals.os = { clock = native.clock }
local function wrapped(library)
    local functions = {}
    for key, value in pairs(library) do
        functions[key] = type(value) == 'function' and raising(value) or value
    end
    return functions
end
for name, library in pairs(native.libraries) do
    globals[name] = wrapped(library)
end
local new = globals.cjson.new
local function new_cjson()
    local cjson = wrapped(new())
    cjson.new = new_cjson
    return cjson
end
globals.cjson.new = new_cjson
for name, value in pairs(native.random) do
    globals.math[name] = raising(value)
end

local kept = {}
for name in ([[_G _VERSION assert bit cjson cmsgpack collectgarbage coroutine error gcinfo
        getmetatable ipairs load loadstring math next os pairs pcall rawequal rawget rawset redis
        select setmetatable string struct table tonumber tostring type unpack xpcall]])
        :gmatch('%S+') do
    kept[name] = true
end
for name in pairs(globals) do
    if not kept[name] then
        globals[name] = nil
    end
end

-- Of each script; that they are here is what lets them change without memory.
if native.has_scripts then
    globals.KEYS, globals.ARGV = {}, {}
end

local meta = {
    __index = function(_, name)
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end,
}
setmetatable(globals, meta)

-- What a library finds while it is loaded, and nothing else.
local loading = { register_function = redis.register_function }
redis.register_function = nil
for name in ([[log LOG_DEBUG LOG_VERBOSE LOG_NOTICE LOG_WARNING REDIS_VERSION REDIS_VERSION_NUM]])
        :gmatch('%S+') do
    loading[name] = redis[name]
end
setmetatable(loading, meta)
local first = setmetatable({ redis = loading }, meta)

-- The globals of libraries: empty, with those behind it that Rust puts there.
local behind = { __index = globals }
local environment = setmetatable({}, behind)

local shared = { meta, getmetatable(''), globals, loading, first, environment }
for _, value in pairs(globals) do
    if type(value) == 'table' then
        shared[#shared + 1] = value
    end
end
for _, value in pairs(shared) do
    setreadonly(value, true)
end

return { environment = environment, behind = behind, first = first }
