/* SPDX-License-Identifier: MIT */

/* The seam's codec. What a valid message is stands in one table below: every byte of every message belongs
 * to exactly one field of it, so nothing can be smuggled in padding or behind a text's end, and nothing
 * uninitialised of ours gets out unnoticed. */

#include "wire/wire.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "base/utf8.h"

#define CONTROLLERS_ALL 7
#define MAIN_CODE_MAX 3     /* CLD_DUMPED */
#define MAIN_STATUS_MAX 255
#define ERRNO_MAX 4095
#define RECEIVED_FDS_MAX 16 /* room in the control buffer; more sets MSG_CTRUNC */

typedef enum FieldKind {
        FIELD_ANY,           /* any bytes: numbers that the receiver clamps */
        FIELD_U8_UP_TO,      /* one byte, 0..max */
        FIELD_U32_UP_TO,
        FIELD_ZERO,          /* padding */
        FIELD_TEXT,          /* terminated, printable UTF-8, zero bytes behind it */
        FIELD_TEXT_NONEMPTY,
        FIELD_HEX_TEXT,      /* max hex digits and a NUL, or all zero */
        FIELD_HEX_BYTES,     /* the whole field is hex digits without a NUL, or all zero */
        FIELD_HEX_BYTES_NONZERO,
        FIELD_TEXTS,         /* an array of texts of max bytes each */
} FieldKind;

typedef struct Field {
        size_t offset, n_bytes;
        FieldKind kind;
        uint32_t max;
} Field;

#define FIELD(type, member, kind, max) { offsetof(type, member), sizeof(((type*) NULL)->member), kind, max }

static const Field start_fields[] = {
        FIELD(WireStart, profile, FIELD_U32_UP_TO, _WIRE_PROFILE_MAX - 1),
        FIELD(WireStart, interpreter, FIELD_U32_UP_TO, WIRE_INTERPRETERS_MAX - 1),
        FIELD(WireStart, environment, FIELD_HEX_BYTES, 0),
        FIELD(WireStart, limits, FIELD_ANY, 0),
};

static const Field assign_fields[] = {
        FIELD(WireAssign, limits, FIELD_ANY, 0),
};

static const Field set_fields[] = {
        FIELD(WireSet, action, FIELD_U32_UP_TO, _WIRE_SET_ACTION_MAX - 1),
        FIELD(WireSet, _padding, FIELD_ZERO, 0),
        FIELD(WireSet, environment, FIELD_HEX_BYTES_NONZERO, 0),
        FIELD(WireSet, to, FIELD_HEX_BYTES, 0),
};

static const Field hello_fields[] = {
        FIELD(WireHello, verdict, FIELD_U32_UP_TO, _WIRE_VERDICT_MAX - 1),
        FIELD(WireHello, is_user, FIELD_U8_UP_TO, 1),
        FIELD(WireHello, has_memory_peak, FIELD_U8_UP_TO, 1),
        FIELD(WireHello, controllers, FIELD_U8_UP_TO, CONTROLLERS_ALL),
        FIELD(WireHello, is_relaxed, FIELD_U8_UP_TO, 1),
        FIELD(WireHello, manager_version, FIELD_ANY, 0),
        FIELD(WireHello, n_interpreters, FIELD_U32_UP_TO, WIRE_INTERPRETERS_MAX),
        FIELD(WireHello, memory_max_bytes, FIELD_ANY, 0),
        FIELD(WireHello, tasks_max, FIELD_ANY, 0),
        FIELD(WireHello, cpu_quota_per_sec_usec, FIELD_ANY, 0),
        FIELD(WireHello, runtime_max_usec, FIELD_ANY, 0),
        FIELD(WireHello, tmpfs_bytes, FIELD_ANY, 0),
        FIELD(WireHello, manager_version_text, FIELD_TEXT, 0),
        FIELD(WireHello, interpreters, FIELD_TEXTS, 256),
        FIELD(WireHello, sets_directory, FIELD_TEXT, 0),
        FIELD(WireHello, sets_reason, FIELD_TEXT, 0),
        FIELD(WireHello, uv, FIELD_TEXT, 0),
        FIELD(WireHello, uv_on_host, FIELD_TEXT, 0),
        FIELD(WireHello, reason, FIELD_TEXT, 0),
        FIELD(WireHello, remedy, FIELD_TEXT, 0),
};

static const Field started_fields[] = {
        FIELD(WireStarted, monotonic_usec, FIELD_ANY, 0),
        FIELD(WireStarted, unit, FIELD_TEXT_NONEMPTY, 0),
        FIELD(WireStarted, invocation_id, FIELD_HEX_TEXT, 32),
        FIELD(WireStarted, _padding, FIELD_ZERO, 0),
};

static const Field finished_fields[] = {
        FIELD(WireFinished, result, FIELD_U32_UP_TO, _WIRE_RESULT_MAX - 1),
        FIELD(WireFinished, start_failed, FIELD_U8_UP_TO, 1),
        FIELD(WireFinished, _padding, FIELD_ZERO, 0),
        FIELD(WireFinished, main_code, FIELD_U32_UP_TO, MAIN_CODE_MAX),
        FIELD(WireFinished, main_status, FIELD_U32_UP_TO, MAIN_STATUS_MAX),
        FIELD(WireFinished, start_monotonic_usec, FIELD_ANY, 0),
        FIELD(WireFinished, exit_monotonic_usec, FIELD_ANY, 0),
        FIELD(WireFinished, cpu_nsec, FIELD_ANY, 0),
        FIELD(WireFinished, memory_peak_bytes, FIELD_ANY, 0),
};

static const Field refused_fields[] = {
        FIELD(WireRefused, reason, FIELD_TEXT_NONEMPTY, 0),
        FIELD(WireRefused, remedy, FIELD_TEXT, 0),
};

static const Field set_done_fields[] = {
        FIELD(WireSetDone, error, FIELD_U32_UP_TO, ERRNO_MAX),
        FIELD(WireSetDone, _padding, FIELD_ZERO, 0),
        FIELD(WireSetDone, text, FIELD_TEXT, 0),
};

static const struct {
        size_t n_bytes;
        WireRole receiver;
        size_t n_fds;
        bool has_job_id;
        const Field *fields; /* behind the header */
        size_t n_fields;
} messages[_WIRE_TYPE_MAX] = {
        [WIRE_START] = { sizeof(WireStart), WIRE_ROLE_LAUNCHER, _WIRE_FD_MAX, true, start_fields,
                         ELEMENTSOF(start_fields) },
        [WIRE_ASSIGN] = { sizeof(WireAssign), WIRE_ROLE_LAUNCHER, 0, true, assign_fields,
                          ELEMENTSOF(assign_fields) },
        [WIRE_STOP] = { sizeof(WireStop), WIRE_ROLE_LAUNCHER, 0, true, NULL, 0 },
        [WIRE_SET] = { sizeof(WireSet), WIRE_ROLE_LAUNCHER, 0, true, set_fields, ELEMENTSOF(set_fields) },
        [WIRE_HELLO] = { sizeof(WireHello), WIRE_ROLE_DAEMON, 0, false, hello_fields,
                         ELEMENTSOF(hello_fields) },
        [WIRE_STARTED] = { sizeof(WireStarted), WIRE_ROLE_DAEMON, 0, true, started_fields,
                           ELEMENTSOF(started_fields) },
        [WIRE_FINISHED] = { sizeof(WireFinished), WIRE_ROLE_DAEMON, 0, true, finished_fields,
                            ELEMENTSOF(finished_fields) },
        [WIRE_REFUSED] = { sizeof(WireRefused), WIRE_ROLE_DAEMON, 0, true, refused_fields,
                           ELEMENTSOF(refused_fields) },
        [WIRE_SET_DONE] = { sizeof(WireSetDone), WIRE_ROLE_DAEMON, 0, true, set_done_fields,
                            ELEMENTSOF(set_done_fields) },
        [WIRE_LOOK] = { sizeof(WireLook), WIRE_ROLE_LAUNCHER, 0, false, NULL, 0 },
};

/* The compiler may add padding that the table knows nothing of; the sums prove that it did not. */
static_assert(sizeof(WireHeader) == 16, "unexpected padding");
static_assert(sizeof(WireLimits) == 32, "unexpected padding");
static_assert(sizeof(WireStart) == 16 + 4 + 4 + 64 + 32, "unexpected padding");
static_assert(sizeof(WireAssign) == 16 + 32, "unexpected padding");
static_assert(sizeof(WireStop) == 16, "unexpected padding");
static_assert(sizeof(WireLook) == 16, "unexpected padding");
static_assert(sizeof(WireSet) == 16 + 4 + 4 + 64 + 64, "unexpected padding");
static_assert(sizeof(WireHello) == 16 + 4 * 4 + 5 * 8 + 64 + 8 * 256 + 256 + 512 + 256 + 256 + 512 + 512,
              "unexpected padding");
static_assert(sizeof(WireStarted) == 16 + 8 + 64 + 33 + 7, "unexpected padding");
static_assert(sizeof(WireFinished) == 16 + 4 + 1 + 3 + 4 + 4 + 4 * 8, "unexpected padding");
static_assert(sizeof(WireRefused) == 16 + 512 + 512, "unexpected padding");
static_assert(sizeof(WireSetDone) == 16 + 4 + 4 + 256, "unexpected padding");

size_t wire_message_size(uint16_t type) {
        return type < ELEMENTSOF(messages) ? messages[type].n_bytes : 0;
}

void wire_header_init(WireMessage *m, WireType type, uint64_t job_id) {
        assert(m);
        assert(wire_message_size((uint16_t) type) > 0);
        assert(messages[type].has_job_id == (job_id != 0));

        m->header = (WireHeader) {
                .magic = WIRE_MAGIC, .version = WIRE_VERSION, .type = (uint16_t) type, .job_id = job_id,
        };
}

static bool is_zero(const char *p, size_t n_bytes) {
        for (size_t i = 0; i < n_bytes; i++)
                if (p[i] != 0)
                        return false;
        return true;
}

static bool is_hex_bytes(const char *p, size_t n_bytes) {
        for (size_t i = 0; i < n_bytes; i++)
                if (!((p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'f')))
                        return false;
        return true;
}

/* Bytes of one printable character at p, 0 if there is none: no control characters, neither of ASCII nor of
 * C1. */
static size_t printable_char(const char *p, size_t n_bytes) {
        size_t n = utf8_sequence(p, n_bytes);
        unsigned char c = (unsigned char) p[0];

        if (n == 1 && (c < 0x20 || c == 0x7f))
                return 0;
        if (n == 2 && c == 0xc2 && (unsigned char) p[1] < 0xa0)
                return 0;
        return n;
}

static bool is_text(const char *p, size_t n_bytes) {
        const char *end = memchr(p, 0, n_bytes);
        size_t length;

        if (!end)
                return false;
        length = (size_t) (end - p);
        for (size_t i = 0, n; i < length; i += n) {
                n = printable_char(p + i, length - i);
                if (n == 0)
                        return false;
        }
        return is_zero(end, n_bytes - length);
}

static bool are_texts(const char *p, size_t n_bytes, size_t n_each) {
        for (size_t at = 0; at < n_bytes; at += n_each)
                if (!is_text(p + at, n_each))
                        return false;
        return true;
}

static bool is_valid_field(const Field *f, const char *message) {
        const char *p = message + f->offset;
        uint32_t value;

        switch (f->kind) {
        case FIELD_ANY:
                return true;
        case FIELD_U8_UP_TO:
                assert(f->n_bytes == 1);
                return (uint8_t) *p <= f->max;
        case FIELD_U32_UP_TO: /* a negative int32_t is far above any maximum */
                assert(f->n_bytes == sizeof(value));
                memcpy(&value, p, sizeof(value));
                return value <= f->max;
        case FIELD_ZERO:
                return is_zero(p, f->n_bytes);
        case FIELD_TEXT:
                return is_text(p, f->n_bytes);
        case FIELD_TEXT_NONEMPTY:
                return *p && is_text(p, f->n_bytes);
        case FIELD_HEX_TEXT:
                assert(f->max + 1 == f->n_bytes);
                return is_zero(p, f->n_bytes) || (is_hex_bytes(p, f->max) && p[f->max] == 0);
        case FIELD_HEX_BYTES:
                return is_zero(p, f->n_bytes) || is_hex_bytes(p, f->n_bytes);
        case FIELD_HEX_BYTES_NONZERO:
                return is_hex_bytes(p, f->n_bytes);
        case FIELD_TEXTS:
                return are_texts(p, f->n_bytes, f->max);
        }
        return false;
}

/* What no single field can say: PARSE has no set, those that write to one name it; only COMMIT has a second
 * name. */
static bool is_consistent(const WireMessage *m) {
        bool has_set;

        switch (m->header.type) {
        case WIRE_START:
                has_set = m->start.environment[0] != 0;
                return m->start.profile == WIRE_PROFILE_RUN ||
                       has_set == (m->start.profile != WIRE_PROFILE_PARSE);
        case WIRE_SET:
                return (m->set.to[0] != 0) == (m->set.action == WIRE_SET_COMMIT);
        default:
                return true;
        }
}

int wire_check(WireRole role, const WireMessage *m, size_t n_bytes, size_t n_fds) {
        const WireHeader *h;

        assert(m);

        if (n_bytes < sizeof(WireHeader))
                return -EBADMSG;
        h = &m->header;
        if (h->magic != WIRE_MAGIC || h->version != WIRE_VERSION)
                return -EBADMSG;
        if (wire_message_size(h->type) == 0 || wire_message_size(h->type) != n_bytes)
                return -EBADMSG;
        /* The attack: a compromised daemon sends what only a launcher may say, and takes a path nobody
         * tested. */
        if (messages[h->type].receiver != role)
                return -EBADMSG;
        if (messages[h->type].n_fds != n_fds || messages[h->type].has_job_id != (h->job_id != 0))
                return -EBADMSG;
        for (size_t i = 0; i < messages[h->type].n_fields; i++)
                if (!is_valid_field(&messages[h->type].fields[i], (const char*) m))
                        return -EBADMSG;
        return is_consistent(m) ? 0 : -EBADMSG;
}

/* One end of a socketpair(2): connected, and nameless on both sides. A name would mean a connection to some
 * service of the host, which hostile code would then find on its fd 0. */
static bool is_socketpair_end(int fd) {
        struct sockaddr_un address;
        socklen_t n = sizeof(address);

        if (!fd_is_socket(fd, AF_UNIX, SOCK_STREAM))
                return false;
        if (getsockname(fd, (struct sockaddr*) &address, &n) < 0 || n > sizeof(sa_family_t))
                return false;
        n = sizeof(address);
        /* A listening socket has no peer. */
        return getpeername(fd, (struct sockaddr*) &address, &n) == 0 && n <= sizeof(sa_family_t);
}

/* O_NONBLOCK would make a program's print() fail, O_DIRECT cuts a pipe into packets, O_ASYNC sends
 * signals. */
static bool has_plain_flags(int fd) {
        int flags = fcntl(fd, F_GETFL);

        return flags >= 0 && (flags & (O_NONBLOCK | O_APPEND | O_DIRECT | O_ASYNC | O_PATH)) == 0;
}

int wire_check_start_fds(const int fds[static _WIRE_FD_MAX]) {
        for (size_t i = 0; i < _WIRE_FD_MAX; i++)
                if (fds[i] < 0 || !has_plain_flags(fds[i]))
                        return -EBADMSG;
        if (!is_socketpair_end(fds[WIRE_FD_CONTROL]) || !fd_is_pipe(fds[WIRE_FD_STDOUT], O_WRONLY) ||
            !fd_is_pipe(fds[WIRE_FD_STDERR], O_WRONLY))
                return -EBADMSG;
        return 0;
}

int wire_send(int fd, const WireMessage *m, const int *fds, size_t n_fds) {
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(sizeof(int) * _WIRE_FD_MAX)];
        } control = {};
        struct iovec iov = { .iov_base = (void*) (uintptr_t) m };
        struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
        ssize_t n;

        assert(fd >= 0);
        assert(m);
        assert(n_fds == 0 || (fds && n_fds == _WIRE_FD_MAX));

        iov.iov_len = wire_message_size(m->header.type);
        assert(iov.iov_len > 0);
        if (n_fds > 0) {
                struct cmsghdr *c;

                msg.msg_control = control.bytes;
                msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
                c = CMSG_FIRSTHDR(&msg);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
                memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
        }
        do
                n = sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        if (n < 0) /* either, depending on whether the peer left something unread */
                return errno == ECONNRESET ? -EPIPE : -errno;
        return (size_t) n == iov.iov_len ? 0 : -EIO;
}

/* Collects every descriptor that came, so that whatever happens each one is closed or handed on. Returns
 * false when there was any other control message. */
static bool take_fds(struct msghdr *msg, int fds[static RECEIVED_FDS_MAX], size_t *ret_n_fds) {
        bool is_clean = true;
        size_t n = 0;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
                size_t n_here;

                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
                        is_clean = false;
                        continue;
                }
                n_here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < n_here; i++) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
                        if (n < RECEIVED_FDS_MAX)
                                fds[n++] = fd;
                        else {
                                is_clean = false;
                                (void) safe_close(fd);
                        }
                }
        }
        *ret_n_fds = n;
        return is_clean;
}

int wire_receive(int fd, WireRole role, WireMessage *ret, int ret_fds[static _WIRE_FD_MAX]) {
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(sizeof(int) * RECEIVED_FDS_MAX)];
        } control;
        WireMessage m = {};
        struct iovec iov = { .iov_base = &m, .iov_len = sizeof(m) };
        struct msghdr msg = {
                .msg_iov = &iov, .msg_iovlen = 1,
                .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes),
        };
        int fds[RECEIVED_FDS_MAX], r;
        bool is_clean;
        size_t n_fds;
        ssize_t n;

        assert(fd >= 0);
        assert(ret);

        for (size_t i = 0; i < _WIRE_FD_MAX; i++)
                ret_fds[i] = -EBADF;

        do
                n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return errno == ECONNRESET ? 0 : -errno; /* the peer closed without having read everything */

        is_clean = take_fds(&msg, fds, &n_fds);
        /* MSG_CTRUNC: descriptors were lost, or we have none left; MSG_TRUNC: larger than any message. */
        if (!is_clean || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
                r = -EBADMSG;
        else if (n == 0 && n_fds == 0)
                r = 0; /* an empty packet looks the same, and ends the connection as well */
        else
                r = wire_check(role, &m, (size_t) n, n_fds);
        if (r < 0 || n == 0) {
                for (size_t i = 0; i < n_fds; i++)
                        (void) safe_close(fds[i]);
                return r;
        }

        *ret = m;
        for (size_t i = 0; i < n_fds; i++) /* wire_check() has seen to it that they fit */
                ret_fds[i] = fds[i];
        return 1;
}

void wire_set_text(char *field, size_t field_bytes, const char *text) {
        size_t n_text, at = 0;

        assert(field);
        assert(field_bytes > 0);
        assert(text);

        memset(field, 0, field_bytes);
        n_text = strlen(text);
        for (size_t i = 0; i < n_text;) {
                size_t n = printable_char(text + i, n_text - i), n_raw = utf8_sequence(text + i, n_text - i);
                size_t n_written = n > 0 ? n : 1;

                if (at + n_written >= field_bytes)
                        return;
                if (n > 0)
                        memcpy(field + at, text + i, n);
                else
                        field[at] = '?';
                at += n_written;
                i += n_raw > 0 ? n_raw : 1;
        }
}

void wire_get_set_name(const char field[static WIRE_SET_NAME_CHARS],
                       char ret[static WIRE_SET_NAME_CHARS + 1]) {
        memcpy(ret, field, WIRE_SET_NAME_CHARS);
        ret[WIRE_SET_NAME_CHARS] = 0;
}

static const char *const result_names[_WIRE_RESULT_MAX] = {
        [WIRE_RESULT_SUCCESS] = "success",
        [WIRE_RESULT_EXIT_CODE] = "exit-code",
        [WIRE_RESULT_SIGNAL] = "signal",
        [WIRE_RESULT_CORE_DUMP] = "core-dump",
        [WIRE_RESULT_TIMEOUT] = "timeout",
        [WIRE_RESULT_OOM_KILL] = "oom-kill",
        [WIRE_RESULT_RESOURCES] = "resources",
        [WIRE_RESULT_PROTOCOL] = "protocol",
        [WIRE_RESULT_WATCHDOG] = "watchdog",
        [WIRE_RESULT_START_LIMIT_HIT] = "start-limit-hit",
        [WIRE_RESULT_EXEC_CONDITION] = "exec-condition",
        [WIRE_RESULT_OTHER] = "other",
        [WIRE_RESULT_GONE] = "gone",
};

const char* wire_result_to_string(WireResult r) {
        return (unsigned) r < _WIRE_RESULT_MAX ? result_names[r] : "other";
}

WireResult wire_result_from_string(const char *s) {
        assert(s);

        /* The last two are words of ours, not of systemd. */
        for (unsigned i = 0; i < WIRE_RESULT_OTHER; i++)
                if (streq(s, result_names[i]))
                        return (WireResult) i;
        return WIRE_RESULT_OTHER;
}
