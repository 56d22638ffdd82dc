/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "alloc_fault.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>


/* A sanitizer has an allocator of its own */
#if defined(__has_feature)
#  if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#    define WIMM_OTHER_ALLOCATOR
#  endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#  define WIMM_OTHER_ALLOCATOR
#endif


namespace {

/* Whose code an address is in */
enum owner_t {
    OWNER_PROGRAM,
    OWNER_WIMM,
    OWNER_UCX, /* And verbs, with the device's library */
    OWNER_OTHER
};

struct code_range {
    uintptr_t begin;
    uintptr_t end;
    owner_t owner;
};

/* No more than this many, so that a look-up allocates nothing */
const unsigned max_ranges = 256;

code_range ranges[max_ranges];
unsigned num_ranges = 0;


owner_t owner_by_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name  = (slash == NULL) ? path : (slash + 1);

    if (*name == '\0') {
        return OWNER_PROGRAM;
    } else if (!strncmp(name, "libuct_ib_wimm", 14)) {
        return OWNER_WIMM;
    } else if (!strncmp(name, "libuc", 5) || !strncmp(name, "libibverbs", 10) ||
               (strstr(name, "-rdmav") != NULL) ||
               !strncmp(name, "libmlx", 6)) {
        return OWNER_UCX;
    }
    return OWNER_OTHER;
}

int add_object(struct dl_phdr_info *info, size_t, void *)
{
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) &phdr = info->dlpi_phdr[i];

        if ((phdr.p_type == PT_LOAD) && (phdr.p_flags & PF_X) &&
            (num_ranges < max_ranges)) {
            const uintptr_t begin = info->dlpi_addr + phdr.p_vaddr;

            ranges[num_ranges++] = { begin, begin + phdr.p_memsz,
                                     owner_by_name(info->dlpi_name) };
        }
    }
    return 0;
}

owner_t owner_of(const void *address)
{
    const uintptr_t value = reinterpret_cast<uintptr_t>(address);

    for (unsigned i = 0; i < num_ranges; ++i) {
        if ((value >= ranges[i].begin) && (value < ranges[i].end)) {
            return ranges[i].owner;
        }
    }
    return OWNER_OTHER;
}

/* Functions of UCX that do not survive it, or have another result than an error
 * (docs/testing.md) */
const char *const excluded[] = { "uct_rc_iface_add_qp", "ucs_log_dispatch",
                                 "uct_ib_device_test_roce_gid_index" };

const char *function_name(void *address)
{
    Dl_info info;

    /* A return address may be that of the next function */
    return (dladdr(static_cast<char *>(address) - 1, &info) != 0) ?
                   info.dli_sname :
                   NULL;
}

bool is_excluded(void *address)
{
    const char *name = function_name(address);

    if (name != NULL) {
        for (const char *other : excluded) {
            if (!strcmp(name, other)) {
                return true;
            }
        }
    }
    return false;
}

/* The functions from the one that allocates up to wimm's that has called it */
struct call_chain {
    static const int max_depth = 24;

    int depth;
    void *frames[max_depth];
};

std::string to_string(const call_chain &chain)
{
    std::string result;

    for (int i = 0; i < chain.depth; ++i) {
        const char *name = function_name(chain.frames[i]);

        result += (i == 0) ? "" : " < ";
        result += (name == NULL) ? "?" : name;
    }
    return result;
}

/* What was allocated. The lock is for UCX's own thread, which may free it. */
struct block {
    void *ptr;
    call_chain chain;
};

const unsigned max_blocks = 4096;

std::atomic_flag lock = ATOMIC_FLAG_INIT;
std::atomic<unsigned> num_blocks(0);
block blocks[max_blocks];

void acquire()
{
    while (lock.test_and_set(std::memory_order_acquire)) {
    }
}

void release()
{
    lock.clear(std::memory_order_release);
}

/* In the thread that has a fault: within judge(), and the last one that it saw */
thread_local bool is_inside = false;
thread_local call_chain last_chain;

/* The first frames are the program's, which has the allocator. A later one would be
 * that of a test that wimm has called. @return Whether it is wimm that allocates. */
bool get_chain(call_chain *chain)
{
    const int max_frames = 64;
    void *frames[max_frames];
    int num_frames = backtrace(frames, max_frames);
    int i          = 0;

    while ((i < num_frames) && (owner_of(frames[i]) == OWNER_PROGRAM)) {
        ++i;
    }

    chain->depth = 0;
    for (int first = i; i < num_frames; ++i) {
        const owner_t owner = owner_of(frames[i]);

        if ((owner == OWNER_PROGRAM) ||
            ((owner == OWNER_OTHER) && (i == first)) ||
            is_excluded(frames[i])) {
            return false;
        }
        if (chain->depth < call_chain::max_depth) {
            chain->frames[chain->depth++] = frames[i];
        }
        if (owner == OWNER_WIMM) {
            return true;
        }
    }
    return false;
}

} // namespace


thread_local alloc_fault *alloc_fault::m_current = nullptr;


alloc_fault::alloc_fault(unsigned nth) : m_nth(nth)
{
    void *frame;

    backtrace(&frame, 1); /* It allocates the first time */
    num_ranges = 0;
    dl_iterate_phdr(add_object, NULL);
    num_blocks = 0;
}

void alloc_fault::run(const std::function<void()> &func)
{
    m_current = this;
    try {
        func();
    } catch (...) {
        m_current = nullptr;
        throw;
    }
    m_current = nullptr;
}

bool alloc_fault::is_available()
{
#ifdef WIMM_OTHER_ALLOCATOR
    return false;
#else
    return true;
#endif
}

std::vector<std::string> alloc_fault::live()
{
    std::vector<call_chain> chains;
    std::vector<std::string> result;

    chains.reserve(max_blocks);
    acquire();
    for (unsigned i = 0; i < num_blocks; ++i) {
        chains.push_back(blocks[i].chain);
    }
    release();

    for (const call_chain &chain : chains) {
        result.push_back(to_string(chain));
    }
    return result;
}

alloc_fault::verdict_t alloc_fault::judge()
{
    alloc_fault *self = m_current;
    verdict_t result  = IGNORE;

    if ((self == nullptr) || is_inside) {
        return IGNORE;
    }

    is_inside = true;
    if (get_chain(&last_chain)) {
        result = WATCH;
        if (!self->happened() && (++self->m_count == self->m_nth)) {
            self->m_where = to_string(last_chain);
            result        = FAIL;
        }
    }
    is_inside = false;
    return result;
}


#ifndef WIMM_OTHER_ALLOCATOR

namespace {

void *watch(alloc_fault::verdict_t verdict, void *ptr)
{
    if ((verdict == alloc_fault::WATCH) && (ptr != NULL)) {
        acquire();
        if (num_blocks < max_blocks) {
            blocks[num_blocks++] = { ptr, last_chain };
        }
        release();
    }
    return ptr;
}

void unwatch(void *ptr)
{
    if ((num_blocks == 0) || (ptr == NULL)) {
        return;
    }

    acquire();
    for (unsigned i = 0; i < num_blocks; ++i) {
        if (blocks[i].ptr == ptr) {
            blocks[i] = blocks[--num_blocks];
            break;
        }
    }
    release();
}

} // namespace

/* The allocator that the program would have without this. Not an initializer of a
 * static variable: its guard may allocate. */
#  define REAL(_name)                                                      \
    static decltype(&_name) real = NULL;                                   \
                                                                           \
    if (real == NULL) {                                                    \
      real = reinterpret_cast<decltype(&_name)>(dlsym(RTLD_NEXT, #_name)); \
    }

#  define ALLOCATE(_name, ...)                                   \
    const alloc_fault::verdict_t verdict = alloc_fault::judge(); \
    REAL(_name);                                                 \
                                                                 \
    if (verdict == alloc_fault::FAIL) {                          \
      errno = ENOMEM;                                            \
      return NULL;                                               \
    }                                                            \
    return watch(verdict, real(__VA_ARGS__))

/* What all libraries call instead of the C library's, since the program comes
 * first */
extern "C" {

void *malloc(size_t size)
{
    ALLOCATE(malloc, size);
}

void *calloc(size_t count, size_t size)
{
    ALLOCATE(calloc, count, size);
}

void *realloc(void *ptr, size_t size)
{
    const alloc_fault::verdict_t verdict = alloc_fault::judge();
    REAL(realloc);

    if ((verdict == alloc_fault::FAIL) && (size > 0)) {
        errno = ENOMEM;
        return NULL;
    }
    unwatch(ptr);
    return watch(verdict, real(ptr, size));
}

void *memalign(size_t alignment, size_t size)
{
    ALLOCATE(memalign, alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    ALLOCATE(aligned_alloc, alignment, size);
}

int posix_memalign(void **ptr, size_t alignment, size_t size)
{
    const alloc_fault::verdict_t verdict = alloc_fault::judge();
    REAL(posix_memalign);

    if (verdict == alloc_fault::FAIL) {
        return ENOMEM;
    }

    const int ret = real(ptr, alignment, size);
    if (ret == 0) {
        watch(verdict, *ptr);
    }
    return ret;
}

void free(void *ptr)
{
    REAL(free);

    unwatch(ptr);
    real(ptr);
}

} // extern "C"

#endif
