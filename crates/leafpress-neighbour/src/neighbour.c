/*
** SQLite once more, in a library of its own, with the few functions that the tests call.
**
** All symbols of SQLite are hidden (-fvisibility=hidden), so this copy has its own
** list of locks, as Python's has beside ours. Only the functions named neighbour_
** are exported.
**
** Must never: share a variable or a function with the copy in the test's executable.
*/
#include "sqlite3.c"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED const char *neighbour_version(void){ return sqlite3_libversion(); }

/* vfs may be null. The connection is there after an error as well, as SQLite makes it. */
EXPORTED int neighbour_open(
  const char *path, int flags, const char *vfs, int busy_ms, sqlite3 **connection
){
  int code = sqlite3_open_v2(path, connection, flags, vfs);
  if( code==SQLITE_OK ) code = sqlite3_busy_timeout(*connection, busy_ms);
  sqlite3_extended_result_codes(*connection, 1);
  return code;
}

EXPORTED int neighbour_close(sqlite3 *connection){ return sqlite3_close(connection); }

EXPORTED int neighbour_execute(sqlite3 *connection, const char *sql){
  return sqlite3_exec(connection, sql, 0, 0, 0);
}

/* The first column of the first row; SQLITE_NOTFOUND without a row. */
EXPORTED int neighbour_query(sqlite3 *connection, const char *sql, sqlite3_int64 *answer){
  sqlite3_stmt *statement = 0;
  int ended, code = sqlite3_prepare_v2(connection, sql, -1, &statement, 0);
  if( code!=SQLITE_OK ) return code;
  code = sqlite3_step(statement);
  if( code==SQLITE_ROW ) *answer = sqlite3_column_int64(statement, 0);
  ended = sqlite3_finalize(statement);
  if( ended!=SQLITE_OK ) return ended;
  return code==SQLITE_ROW ? SQLITE_OK : SQLITE_NOTFOUND;
}

EXPORTED int neighbour_in_transaction(sqlite3 *connection){
  return !sqlite3_get_autocommit(connection);
}

EXPORTED const char *neighbour_error(int code){ return sqlite3_errstr(code); }

/* Registers a copy of a VFS of the other SQLite: the tables of methods are laid out alike. */
EXPORTED int neighbour_register(const sqlite3_vfs *theirs){
  sqlite3_vfs *ours = malloc(sizeof(*ours));
  if( ours==0 ) return SQLITE_NOMEM;
  *ours = *theirs;
  ours->pNext = 0;
  return sqlite3_vfs_register(ours, 0);
}
