/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "perf.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>


/* How long a client waits for its server, or less: -T */
#define CONNECT_SECONDS 30


static void perf_chan_ended(void)
{
    perf_fail("the other side has ended");
}

/* Nothing was received or sent within -T: each side does at the same time the same work */
static void perf_chan_failed(ssize_t ret)
{
    if ((ret < 0) && ((errno == EAGAIN) || (errno == EWOULDBLOCK))) {
        perf_fail("nothing has come from the other side for %g s",
                  perf_opts.timeout);
    }
    perf_chan_ended();
}

/* At least so long: none at all would be for ever */
static void perf_chan_limit(int fd, int option, double seconds)
{
    uint64_t usec     = 1 + ((seconds > 0) ? (uint64_t)(seconds * 1e6) : 0);
    struct timeval tv = { .tv_sec = usec / 1000000, .tv_usec = usec % 1000000 };

    setsockopt(fd, SOL_SOCKET, option, &tv, sizeof(tv));
}

void perf_chan_set(perf_chan_t *chan, int fd)
{
    int enable = 1;

    perf_chan_limit(fd, SO_RCVTIMEO, perf_opts.timeout);
    perf_chan_limit(fd, SO_SNDTIMEO, perf_opts.timeout);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &enable, sizeof(enable));
    chan->fd = fd;
}

/* Try each address of the host. @return The socket, or -1 with errno set. */
static int perf_chan_try(const struct addrinfo *list, uint64_t deadline)
{
    const struct addrinfo *ai;
    int fd, saved_errno;

    errno = ENOENT;
    for (ai = list; ai != NULL; ai = ai->ai_next) {
        fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            continue;
        }
        perf_chan_limit(fd, SO_SNDTIMEO,
                        ((double)deadline - (double)perf_now()) / 1e9);
        if (connect(fd, ai->ai_addr, ai->ai_addrlen) == 0) {
            return fd;
        }
        saved_errno = errno;
        close(fd);
        errno = saved_errno;
    }

    return -1;
}

void perf_chan_connect(perf_chan_t *chan, const char *host, unsigned port)
{
    struct addrinfo hints = { .ai_family   = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM };
    struct timespec pause = { .tv_nsec = 100000000 };
    double seconds = (perf_opts.timeout < CONNECT_SECONDS) ? perf_opts.timeout :
                                                             CONNECT_SECONDS;
    uint64_t deadline = perf_now() + (uint64_t)(seconds * 1e9);
    struct addrinfo *list;
    char service[16];
    int ret, fd;

    snprintf(service, sizeof(service), "%u", port);
    ret = getaddrinfo(host, service, &hints, &list);
    if (ret != 0) {
        perf_fail("no address of host '%s': %s", host, gai_strerror(ret));
    }

    /* The two sides may be started in any order */
    while ((fd = perf_chan_try(list, deadline)) < 0) {
        if (perf_now() > deadline) {
            perf_fail("no server answers on %s, port %u (%s): start"
                      " wimm_perftest there, without a host",
                      host, port, strerror(errno));
        }
        nanosleep(&pause, NULL);
    }

    freeaddrinfo(list);
    perf_chan_set(chan, fd);
}

/* A client says at once what it wants: who does not is none */
static void perf_chan_wait_first(perf_chan_t *chan)
{
    struct pollfd pfd = { .fd = chan->fd, .events = POLLIN };

    if (poll(&pfd, 1, (int)(perf_opts.timeout * 1e3)) == 0) {
        perf_fail("the client has asked for nothing in %g s",
                  perf_opts.timeout);
    }
}

void perf_chan_listen(perf_chan_t *chan, unsigned port)
{
    struct sockaddr_in6 addr = { .sin6_family = AF_INET6,
                                 .sin6_addr   = IN6ADDR_ANY_INIT,
                                 .sin6_port   = htons(port) };
    struct sockaddr_in addr4 = { .sin_family      = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_ANY),
                                 .sin_port        = htons(port) };
    struct sockaddr *any     = (struct sockaddr *)&addr;
    socklen_t length         = sizeof(addr);
    int enable = 1, disable = 0;
    int listen_fd, fd;

    /* For both versions of IP, or for IPv4 where there is no other */
    listen_fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listen_fd < 0) {
        listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        any       = (struct sockaddr *)&addr4;
        length    = sizeof(addr4);
    } else {
        setsockopt(listen_fd, IPPROTO_IPV6, IPV6_V6ONLY, &disable,
                   sizeof(disable));
    }

    if (listen_fd >= 0) {
        setsockopt(listen_fd, SOL_SOCKET, SO_REUSEADDR, &enable,
                   sizeof(enable));
    }
    if ((listen_fd < 0) || bind(listen_fd, any, length) ||
        listen(listen_fd, 1)) {
        perf_fail("cannot wait on port %u: %s (-p takes another one)", port,
                  strerror(errno));
    }

    if (!perf_opts.quiet) {
        printf("waiting for the client on port %u\n", port);
        fflush(stdout);
    }

    do {
        fd = accept(listen_fd, NULL, NULL);
    } while ((fd < 0) && (errno == EINTR));
    if (fd < 0) {
        perf_fail("cannot accept a client: %s", strerror(errno));
    }

    close(listen_fd);
    perf_chan_set(chan, fd);
    perf_chan_wait_first(chan);
}

void perf_chan_send(perf_chan_t *chan, const void *buffer, size_t length)
{
    ssize_t ret;

    while (length > 0) {
        ret = send(chan->fd, buffer, length, MSG_NOSIGNAL);
        if ((ret < 0) && (errno == EINTR)) {
            continue;
        }
        if (ret <= 0) {
            perf_chan_failed(ret);
        }
        buffer = (const char *)buffer + ret;
        length -= ret;
    }
}

void perf_chan_recv(perf_chan_t *chan, void *buffer, size_t length)
{
    ssize_t ret;

    while (length > 0) {
        ret = recv(chan->fd, buffer, length, 0);
        if ((ret < 0) && (errno == EINTR)) {
            continue;
        }
        if (ret <= 0) {
            perf_chan_failed(ret);
        }
        buffer = (char *)buffer + ret;
        length -= ret;
    }
}

int perf_chan_ready(perf_chan_t *chan)
{
    ssize_t ret;
    char byte;

    ret = recv(chan->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if ((ret == 0) || ((ret < 0) && (errno != EAGAIN) && (errno != EINTR))) {
        perf_chan_ended();
    }

    return ret > 0;
}

void perf_chan_check(perf_chan_t *chan)
{
    if (chan->fd >= 0) {
        perf_chan_ready(chan);
    }
}

void perf_chan_close(perf_chan_t *chan)
{
    if (chan->fd >= 0) {
        close(chan->fd);
        chan->fd = -1;
    }
}
