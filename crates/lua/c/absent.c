/*
** The libraries that scripts do not have, under the names that mlua links:
** nagi loads none of them.
*/

#include "lua.h"

#include "lauxlib.h"
#include "lualib.h"

static int absent (lua_State *L) {
  return luaL_error(L, "there is no such library");
}

LUALIB_API int luaopen_io (lua_State *L) { return absent(L); }

LUALIB_API int luaopen_os (lua_State *L) { return absent(L); }

LUALIB_API int luaopen_package (lua_State *L) { return absent(L); }

LUALIB_API int luaopen_debug (lua_State *L) { return absent(L); }

LUALIB_API void luaL_openlibs (lua_State *L) { absent(L); }
