/*
** System calls that SQLite makes, replaced: the part that must be C.
**
** SQLite calls fcntl with a variable argument list, which Rust can call but not
** define; on Apple's 64-bit ARM such arguments are passed on the stack. struct flock
** differs between systems and with the size of off_t. So this file takes the calls
** apart, and Rust sees plain integers.
**
** Must never: decide anything.
*/
#define _FILE_OFFSET_BITS 64
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How a lock is asked for, as in system_calls.rs. */
enum { HOW_GET = 0, HOW_SET = 1, HOW_WAIT = 2 };
/* Which lock, as in range_lock.rs. */
enum { NO_LOCK = 0, READ_LOCK = 1, WRITE_LOCK = 2 };
/* The answer of a replacement that leaves the call to the system. */
enum { AS_BEFORE = 1 };

/* Replacements in Rust. Each answers a value of its own, or a negative errno. */
struct leafpress_replacements {
  int (*open)(const char *path, int flags, int mode);
  int (*close)(int descriptor);
  int (*lock)(int descriptor, int how, int *lock, int64_t start, int64_t bytes);
  /* These answer as the system does, and set errno. */
  void *(*map)(void *start, size_t bytes, int protection, int flags, int descriptor, int64_t offset);
  int (*unmap)(void *start, size_t bytes);
  void *(*remap)(void *start, size_t bytes, size_t new_bytes, int flags);
};

static struct leafpress_replacements replacements;

/* A thread that met a replacement in SQLite's table, which has no barriers, must also see these. */
static const struct leafpress_replacements *in_force(void) {
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return &replacements;
}

/* In a child of fork: mixed into device numbers, so that SQLite does not take a file
** for one that its parent had open, whose locks it would believe to hold. */
static dev_t device_mask;

/* The descriptor that holds all locks of the file behind a number, plus one; 0 where Rust
** decides. SQLite takes two locks in a read transaction, and Rust is not asked for them. */
enum { NUMBERS = 65536 };
static int holders[NUMBERS];

static int answered(int answer) {
  if (answer >= 0) return answer;
  errno = -answer;
  return -1;
}

static int lock_of(short type) {
  return type == F_RDLCK ? READ_LOCK : type == F_WRLCK ? WRITE_LOCK : NO_LOCK;
}

static short type_of(int lock) {
  return lock == READ_LOCK ? F_RDLCK : lock == WRITE_LOCK ? F_WRLCK : F_UNLCK;
}

static int replaced_open(const char *path, int flags, int mode) {
  return answered(in_force()->open(path, flags, mode));
}

static int replaced_close(int descriptor) {
  return answered(in_force()->close(descriptor));
}

#if defined(F_OFD_SETLK) && defined(F_OFD_GETLK) && defined(F_OFD_SETLKW)
static const int ofd_commands[] = {F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW};

/* A lock of the open file description behind `descriptor`, as fcntl answers. */
static int ofd_lock(int descriptor, int how, struct flock *range) {
  int answer;

  range->l_pid = 0;
  do {
    answer = fcntl(descriptor, ofd_commands[how], range);
  } while (answer != 0 && errno == EINTR && how != HOW_WAIT);
  return answer;
}
#else
static int ofd_lock(int descriptor, int how, struct flock *range) {
  (void)descriptor; (void)how; (void)range;
  errno = ENOTSUP;
  return -1;
}
#endif

static int holder_of(int descriptor) {
  if (descriptor < 0 || descriptor >= NUMBERS) return -1;
  return __atomic_load_n(&holders[descriptor], __ATOMIC_ACQUIRE) - 1;
}

static int replaced_fcntl(int descriptor, int command, ...) {
  va_list arguments;
  struct flock *range;
  int how, holder, lock, answer;

  va_start(arguments, command);
  switch (command) {
    case F_GETLK: how = HOW_GET; break;
    case F_SETLK: how = HOW_SET; break;
    case F_SETLKW: how = HOW_WAIT; break;
    default:
      answer = fcntl(descriptor, command, va_arg(arguments, int));
      va_end(arguments);
      return answer;
  }
  range = va_arg(arguments, struct flock *);
  va_end(arguments);
  if (range->l_whence != SEEK_SET) return fcntl(descriptor, command, range);
  holder = holder_of(descriptor);
  if (holder >= 0) return ofd_lock(holder, how, range);
  lock = lock_of(range->l_type);
  answer = in_force()->lock(descriptor, how, &lock, range->l_start, range->l_len);
  if (answer == AS_BEFORE) return fcntl(descriptor, command, range);
  if (answer == 0 && how == HOW_GET) range->l_type = type_of(lock);
  return answered(answer);
}

static void *replaced_mmap(
  void *start, size_t bytes, int protection, int flags, int descriptor, off_t offset
) {
  return in_force()->map(start, bytes, protection, flags, descriptor, offset);
}

static int replaced_munmap(void *start, size_t bytes) {
  return in_force()->unmap(start, bytes);
}

#ifdef __linux__
/* SQLite never names the new place, which would be the argument after the flags. */
static void *replaced_mremap(void *start, size_t bytes, size_t new_bytes, int flags, ...) {
  return in_force()->remap(start, bytes, new_bytes, flags);
}
#endif

static int replaced_fstat(int descriptor, struct stat *facts) {
  int answer = fstat(descriptor, facts);
  if (answer == 0) facts->st_dev ^= device_mask;
  return answer;
}

static int replaced_stat(const char *path, struct stat *facts) {
  int answer = stat(path, facts);
  if (answer == 0) facts->st_dev ^= device_mask;
  return answer;
}

struct leafpress_system_call {
  const char *name;
  void (*replacement)(void);
};

/* `open` is the last: a descriptor is only known once closing it is known too. */
static const struct leafpress_system_call calls[] = {
  {"fcntl", (void (*)(void))replaced_fcntl},
  {"close", (void (*)(void))replaced_close},
  {"fstat", (void (*)(void))replaced_fstat},
  {"stat", (void (*)(void))replaced_stat},
  {"munmap", (void (*)(void))replaced_munmap},
#ifdef __linux__
  {"mremap", (void (*)(void))replaced_mremap},
#endif
  {"mmap", (void (*)(void))replaced_mmap},
  {"open", (void (*)(void))replaced_open},
};

/* What SQLite is to call instead; answers how many they are. */
int leafpress_system_calls(const struct leafpress_system_call **first) {
  *first = calls;
  return (int)(sizeof(calls) / sizeof(calls[0]));
}

void leafpress_replace_by(const struct leafpress_replacements *by) {
  replacements = *by;
  __atomic_thread_fence(__ATOMIC_RELEASE);
}

/* In the highest bits, where no system keeps a part of a device's number. */
void leafpress_mask_devices(uint32_t generation) {
  device_mask = (dev_t)generation << (8 * sizeof(dev_t) - 16);
}

/* Says that `holder` holds all locks of `number`'s file; -1 for: ask Rust. */
void leafpress_set_holder(int number, int holder) {
  if (number >= 0 && number < NUMBERS) {
    __atomic_store_n(&holders[number], holder + 1, __ATOMIC_RELEASE);
  }
}

/* A lock that belongs to the open file description. Answers 0 or a negative errno;
** after HOW_GET `lock` and `pid` describe a lock that is in the way, if there is one. */
int leafpress_range_lock(
  int descriptor, int how, int *lock, int64_t start, int64_t bytes, int64_t *pid
) {
  struct flock range;

  memset(&range, 0, sizeof(range));
  range.l_type = type_of(*lock);
  range.l_whence = SEEK_SET;
  range.l_start = start;
  range.l_len = bytes;
  if (ofd_lock(descriptor, how, &range) != 0) return -errno;
  if (how == HOW_GET) {
    *lock = lock_of(range.l_type);
    *pid = range.l_pid;
  }
  return 0;
}
