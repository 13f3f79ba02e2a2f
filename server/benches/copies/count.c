/* Counts what a process copies and clears in user space, and what goes through its sockets. Loaded ahead of the
   C library by LD_PRELOAD; the counters lie in the file that COPIES_FILE names. Must match `counters.rs`. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LEAST = 4096, SITES = 512, FRAMES = 12 };
enum { COPIED, CLEARED, RECEIVED, SENT, KINDS };

struct count { atomic_uint_least64_t calls, bytes; };
struct site { atomic_uint_least64_t key; struct count count; uint64_t kind, frames[FRAMES]; };
struct counters { struct count kinds[KINDS]; struct site sites[SITES]; };

static struct counters *counters;
static void *(*real_memcpy)(void *, const void *, size_t);
static void *(*real_memmove)(void *, const void *, size_t);
static void *(*real_memset)(void *, int, size_t);
static void *(*real_realloc)(void *, size_t);

__attribute__((constructor)) static void start(void) {
    void *frames[FRAMES];
    backtrace(frames, FRAMES); /* what it loads, it loads now */
    real_memmove = dlsym(RTLD_NEXT, "memmove");
    real_memcpy = dlsym(RTLD_NEXT, "memcpy");
    real_memset = dlsym(RTLD_NEXT, "memset");
    real_realloc = dlsym(RTLD_NEXT, "realloc");
    const char *path = getenv("COPIES_FILE");
    int file = path ? open(path, O_RDWR) : -1;
    if (file < 0 || ftruncate(file, sizeof *counters)) return;
    void *map = mmap(0, sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map != MAP_FAILED) counters = map;
    close(file);
}

static void add(struct count *count, size_t bytes) {
    atomic_fetch_add_explicit(&count->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&count->bytes, bytes, memory_order_relaxed);
}

/* Counts for the whole process, and for the stack that leads here. */
__attribute__((noinline)) static void note(int kind, size_t bytes) {
    void *frames[FRAMES + 2];
    if (!counters || bytes < LEAST) return;
    add(&counters->kinds[kind], bytes);
    int depth = backtrace(frames, FRAMES + 2);
    uint64_t key = 1469598103934665603u + kind;
    for (int it = 2; it < depth; it++) key = (key ^ (uintptr_t)frames[it]) * 1099511628211u;
    key |= 1; /* 0 is a free place */
    for (int step = 0; step < SITES; step++) {
        struct site *site = &counters->sites[(key + step) % SITES];
        uint_least64_t found = 0;
        if (atomic_compare_exchange_strong(&site->key, &found, key)) {
            site->kind = kind;
            for (int it = 2; it < depth; it++) site->frames[it - 2] = (uintptr_t)frames[it];
            found = key;
        }
        if (found == key) {
            add(&site->count, bytes);
            return;
        }
    }
}

/* Without the C library's own: it is not found yet while the first libraries are loaded. */
static void *slow_move(void *to, const void *from, size_t bytes) {
    volatile char *target = to;
    const volatile char *source = from;
    if (target < source) for (size_t it = 0; it < bytes; it++) target[it] = source[it];
    else while (bytes--) target[bytes] = source[bytes];
    return to;
}

void *memcpy(void *to, const void *from, size_t bytes) {
    note(COPIED, bytes);
    return real_memcpy ? real_memcpy(to, from, bytes) : slow_move(to, from, bytes);
}

void *memmove(void *to, const void *from, size_t bytes) {
    note(COPIED, bytes);
    return real_memmove ? real_memmove(to, from, bytes) : slow_move(to, from, bytes);
}

void *__memcpy_chk(void *to, const void *from, size_t bytes, size_t room) {
    (void)room;
    note(COPIED, bytes);
    return real_memcpy ? real_memcpy(to, from, bytes) : slow_move(to, from, bytes);
}

void *memset(void *to, int value, size_t bytes) {
    note(CLEARED, bytes);
    if (real_memset) return real_memset(to, value, bytes);
    for (volatile char *it = to; it < (volatile char *)to + bytes; it++) *it = value;
    return to;
}

/* A block that the C library mapped (bit 1 of its size) moves by its page table, which copies nothing. */
void *realloc(void *old, size_t bytes) {
    size_t had = old ? malloc_usable_size(old) : 0;
    int mapped = old && ((size_t *)old)[-1] & 2;
    void *now = real_realloc(old, bytes);
    if (now != old && !mapped) note(COPIED, had < bytes ? had : bytes);
    return now;
}

#define SOCKET_CALL(kind, type, name, parameters, ...)                                     \
    type name parameters {                                                                \
        static type(*real) parameters;                                                    \
        if (!real) real = dlsym(RTLD_NEXT, #name);                                        \
        type done = real(__VA_ARGS__);                                                    \
        if (counters && done > 0) add(&counters->kinds[kind], done);                      \
        return done;                                                                      \
    }

SOCKET_CALL(RECEIVED, ssize_t, recv, (int s, void *b, size_t n, int f), s, b, n, f)
SOCKET_CALL(RECEIVED, ssize_t, recvfrom,
            (int s, void *b, size_t n, int f, struct sockaddr *a, socklen_t *l), s, b, n, f, a, l)
SOCKET_CALL(RECEIVED, ssize_t, recvmsg, (int s, struct msghdr *m, int f), s, m, f)
SOCKET_CALL(RECEIVED, ssize_t, readv, (int s, const struct iovec *v, int n), s, v, n)
SOCKET_CALL(SENT, ssize_t, send, (int s, const void *b, size_t n, int f), s, b, n, f)
SOCKET_CALL(SENT, ssize_t, sendmsg, (int s, const struct msghdr *m, int f), s, m, f)
SOCKET_CALL(SENT, ssize_t, writev, (int s, const struct iovec *v, int n), s, v, n)
