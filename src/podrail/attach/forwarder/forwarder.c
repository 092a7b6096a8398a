/* podrail's CNI forwarder: hands a CNI request to the attach service and prints its answer.
 *
 * The service down: DEL and GC are written durably to the spool and succeed, everything else fails
 * with CNI error 11. podrail/attach/wire.py describes the frames; forwarder.py does the same. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { HEADER_MAX = 64, ENV_MAX = 64 << 10, STDIN_MAX = 1 << 20, ANSWER_MAX = 1 << 20 };
enum { BAD_ENV = 4, IO_FAILURE = 5, BAD_CONFIG = 7, TRY_AGAIN = 11 };
#define VERSIONS "\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\""
#define VERSION "{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[" VERSIONS "]}\n"

static const char *service = "/run/podrail/cni.sock", *spools = "/var/lib/podrail/spool";
static long long deadline = 220000, patience = 2000; /* ms; the kubelet gives up after 4 minutes */
static char frame[HEADER_MAX + ENV_MAX + STDIN_MAX + 2], answer[HEADER_MAX + ANSWER_MAX + 1];
static size_t start, env_size, stdin_size, answer_size;
extern char **environ;

static long long now(clockid_t which, long long unit) {
    struct timespec t;
    return clock_gettime(which, &t) ? 0 : (t.tv_sec * 1000000000LL + t.tv_nsec) / unit;
}

static int put(int fd, const char *from, size_t size) {
    while (size) {
        ssize_t n = write(fd, from, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        from += n, size -= (size_t)n;
    }
    return 0;
}

/* The version of the configuration, by a scan that takes nothing but digits and dots. */
static const char *version(void) {
    static char found[16];
    const char *key = "\"cniVersion\"", *at = strstr(frame + HEADER_MAX + env_size, key);
    if (!at) return "1.0.0";
    at += strlen(key) + strspn(at + strlen(key), " \t\r\n");
    at += *at == ':' ? 1 + strspn(at + 1, " \t\r\n") : 0;
    size_t n = *at == '"' ? strspn(at + 1, "0123456789.") : 0;
    return n && n < sizeof found && at[n + 1] == '"' ? memcpy(found, at + 1, n) : "1.0.0";
}

__attribute__((noreturn, format(printf, 2, 3))) static void fail(int code, const char *why, ...) {
    char text[512], body[640];
    va_list list;
    va_start(list, why);
    int n = vsnprintf(text, sizeof text, why, list);
    va_end(list);
    for (char *c = text; n > 0 && *c; c++)
        if (*c < ' ' || *c == '"' || *c == '\\' || *c == 127) *c = '?';
    n = snprintf(body, sizeof body, "{\"cniVersion\":\"%s\",\"code\":%d,\"msg\":\"%s\"}\n",
                 version(), code, n > 0 ? text : "");
    exit(n > 0 && !put(STDOUT_FILENO, body, (size_t)n) ? 1 : 2);
}

static int ready(int fd, short events) {
    for (;;) {
        long long left = deadline - now(CLOCK_MONOTONIC, 1000000);
        struct pollfd p = {fd, events, 0};
        int n = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (n > 0) return 0;
        if (n == 0) return errno = ETIMEDOUT, -1;
        if (errno != EINTR) return -1;
    }
}

/* Reads until the end, or until there is no more room; -1 with errno. */
static ssize_t take(int fd, char *into, size_t room) {
    size_t size = 0;
    while (size < room) {
        if (ready(fd, POLLIN)) return -1;
        ssize_t n = read(fd, into + size, room - size);
        if (n == 0 || (n < 0 && errno == ECONNRESET)) break; /* what came before it counts */
        if (n < 0 && errno != EINTR && errno != EAGAIN) return -1;
        size += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)size;
}

static void gather(const char *called) {
    char *env = frame + HEADER_MAX, head[HEADER_MAX];
    const char *slash = strrchr(called, '/');
    int n = snprintf(env, ENV_MAX, "PODRAIL_NAME=%s", slash ? slash + 1 : called);
    size_t used = n > 0 && n < ENV_MAX ? (size_t)n + 1 : ENV_MAX;
    for (char **e = environ; *e && used <= ENV_MAX; e++) {
        size_t size = strncmp(*e, "CNI_", 4) ? 0 : strlen(*e) + 1;
        if (size <= ENV_MAX - used) memcpy(env + used, *e, size);
        used += size;
    }
    if (used > ENV_MAX) *env = 0, fail(BAD_ENV, "found more than %d bytes of CNI_*", ENV_MAX);
    env_size = used;
    ssize_t got = take(STDIN_FILENO, env + env_size, STDIN_MAX + 1);
    if (got < 0) fail(IO_FAILURE, "stdin cannot be read: %s", strerror(errno));
    if (got > STDIN_MAX) fail(BAD_CONFIG, "found more than %d bytes on stdin", STDIN_MAX);
    stdin_size = (size_t)got;
    n = snprintf(head, sizeof head, "PRCNI1 %zu %zu\n", env_size, stdin_size);
    start = HEADER_MAX - (size_t)n; /* two numbers of seven digits: it fits */
    memcpy(frame + start, head, (size_t)n);
}

/* Sends the frame and receives an answer; -1 with errno. */
static int exchange(void) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct timeval wait = {patience / 1000, patience % 1000 * 1000};
    size_t at = start, end = HEADER_MAX + env_size + stdin_size;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (strlen(service) >= sizeof to.sun_path) return errno = ENAMETOOLONG, -1;
    memcpy(to.sun_path, service, strlen(service));
    /* With a full backlog connect waits as long as send: net/unix/af_unix.c:unix_stream_connect. */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait)) return -1;
    if (connect(fd, (struct sockaddr *)&to, sizeof to))
        return errno = errno == EAGAIN ? ETIMEDOUT : errno, -1;
    while (at < end) {
        if (ready(fd, POLLOUT)) return -1;
        ssize_t n = send(fd, frame + at, end - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EINTR && errno != EAGAIN) break; /* refused? see what it says */
        at += n > 0 ? (size_t)n : 0;
    }
    ssize_t got = take(fd, answer, sizeof answer - 1);
    answer_size = got > 0 ? (size_t)got : 0;
    return got < 0 ? -1 : 0;
}

/* Prints the answer and gives its exit code; -1 where it is not whole. */
static int print(void) {
    char *body = memchr(answer, '\n', answer_size < HEADER_MAX ? answer_size : HEADER_MAX), *end;
    if (!body || strspn(answer, "0123456789 ") != (size_t)(body - answer)) return -1;
    unsigned long code = strtoul(answer, &end, 10), size = 0;
    int good = *answer != ' ' && *end == ' ' && end[1] != ' ' && end[1] != '\n';
    if (good) size = strtoul(end + 1, &end, 10);
    size_t got = answer_size - (size_t)(body + 1 - answer);
    if (!good || end != body || code > 255 || size > ANSWER_MAX || got != size) return -1;
    return put(STDOUT_FILENO, body + 1, got) ? 1 : (int)code;
}

/* Writes the frame where the service finds it when it starts; -1 with errno. */
static int spool(void) {
    char name[64], temp[80], up[4096];
    struct stat is;
    long long at = now(CLOCK_REALTIME, 1);
    snprintf(name, sizeof name, "%020lld-%d.cni", at, (int)getpid());
    snprintf(temp, sizeof temp, ".%s.tmp", name);
    snprintf(up, sizeof up, "%.*s", (int)(strrchr(spools, '/') - spools), spools);
    if (mkdir(up, 0700) && errno != EEXIST) return -1;
    int made = !mkdir(spools, 0700), dir = -1, fd = -1;
    if (!made && errno != EEXIST) return -1;
    if ((dir = open(spools, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0) return -1;
    if ((made && syncfs(dir)) || fstat(dir, &is)) return -1;
    if (is.st_uid != geteuid() || is.st_mode & 022) return errno = EPERM, -1;
    fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return -1;
    if (put(fd, frame + start, HEADER_MAX - start + env_size + stdin_size) || fsync(fd) ||
        close(fd) || renameat(dir, temp, dir, name)) {
        int why = errno;
        return unlinkat(dir, temp, 0), errno = why, -1;
    }
    return fsync(dir);
}

int main(int argc, char **argv) {
    const char *command = getenv("CNI_COMMAND");
#ifdef PODRAIL_TESTING /* never in what is installed */
    if (getenv("PODRAIL_CNI_SOCKET")) service = getenv("PODRAIL_CNI_SOCKET");
    if (getenv("PODRAIL_CNI_SPOOL")) spools = getenv("PODRAIL_CNI_SPOOL");
    if (getenv("PODRAIL_CNI_MS")) deadline = patience = atoll(getenv("PODRAIL_CNI_MS"));
#endif
    deadline += now(CLOCK_MONOTONIC, 1000000);
    /* Without a stdout the next descriptor would become it. */
    if (fcntl(STDOUT_FILENO, F_GETFD) < 0) return 2;
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR) fail(IO_FAILURE, "SIGPIPE: %s", strerror(errno));
    if (!command || !*command) fail(BAD_ENV, "CNI_COMMAND is not set: a runtime calls this");
    if (!strcmp(command, "VERSION")) return put(STDOUT_FILENO, VERSION, strlen(VERSION)) ? 1 : 0;
    gather(argc > 0 ? argv[0] : "");
    int failed = exchange(), code = failed ? -1 : print();
    if (code >= 0) return code;
    int why = failed ? errno : ECONNRESET, down = why == ENOENT || why == ECONNREFUSED ||
                                                  why == ECONNRESET || why == EPIPE;
    if (!down || (strcmp(command, "DEL") && strcmp(command, "GC")))
        fail(TRY_AGAIN, "no answer from podrail's attach service at %s: %s; see its log", service,
             strerror(why));
    if (spool()) fail(IO_FAILURE, "%s cannot be kept in %s: %s", command, spools, strerror(errno));
    return 0;
}
