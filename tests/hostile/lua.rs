//! Scripts that recurse and nest without end.

use crate::scripting::same_as_redis;

#[test]
fn recursion_and_depth_end_as_in_redis() {
    let nested = "local t = {} for i = 1, 500 do t = {t} end return t";
    let mut commands: Vec<String> = [
        "local function f() return 1 + f() end return f()",
        "local function f() return pcall(f) end return f()",
        "local t = setmetatable({}, {__index = function(t, k) return t[k] end}) return t.x",
        "local t = setmetatable({}, {__tostring = function(t) return tostring(t) end}) \
         return tostring(t)",
        "return cjson.decode(('['):rep(1000) .. (']'):rep(1000))",
        "return cjson.decode(('['):rep(1001) .. (']'):rep(1001))",
        "return cjson.decode(('['):rep(100000))",
        "return cjson.decode(('{\\\"a\\\":'):rep(1001))",
        "local t = {} for i = 1, 1000 do t = {t} end return #cjson.encode(t)",
        "local t = {} for i = 1, 1001 do t = {t} end return cjson.encode(t)",
        "local t = {} t.t = t return cjson.encode(t)",
        "local t = {} t[1] = t return #cmsgpack.pack(t)",
        "local t = {} for i = 1, 100 do t = {t} end return #cmsgpack.pack(t)",
        "return string.rep('x', -1)",
        "return string.rep('', 1e9)",
        "return string.format('%1000d', 1)",
        "return string.format('%99.99f', 1)",
        "return unpack({}, 1, 1e8)",
        "return #string.rep('x', 1e6)",
        "return string.find('x', '(')",
        "return string.find('x', '[')",
        "return string.find('x', '%')",
        "return string.find(('('):rep(100), ('(('):rep(40))",
        "return select('#', string.byte(('x'):rep(1e6), 1, -1))",
        "return bit.lshift(1, 1e308)",
        "return struct.pack('i999', 1)",
        "return struct.unpack('i', '')",
        "return tonumber(('9'):rep(1e5))",
        "return redis.sha1hex(('x'):rep(1e6))",
        "error({err = ('x'):rep(100)})",
        nested,
    ]
    .iter()
    .map(|text| format!("EVAL \"{text}\" 0"))
    .collect();
    commands.push("EVAL \"return redis.call('EVAL', 'return 1', 0)\" 0".to_owned());
    same_as_redis(&commands.iter().map(String::as_str).collect::<Vec<_>>());
}
