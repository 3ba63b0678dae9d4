/* SPDX-License-Identifier: MIT */

/* Two passes: the directories level by level (so what is cut off is always what lies deepest), keeping the
 * first few entries in order; then these few are read, in that order. */

#include "exec/file-walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fd.h"
#include "base/strv.h"
#include "base/timeutil.h"
#include "base/utf8.h"
#include "exec/file-list.h"

/* tmpfs charges an inode for each name, so the sandbox has far fewer unless its limit was raised. */
#define ENTRIES_MAX 100000
#define DIRECTORIES_MAX 4096 /* waiting to be looked into */
#define SLICE_USEC 1000      /* of one turn of the event loop */
#define CHUNK_BYTES (64 * KIB)

typedef struct Directory {
        char *path; /* "" is the working directory */
        unsigned depth;
} Directory;

struct FileWalk {
        FileWalkParameters p;
        sd_event_source *source;

        Directory *directories; /* a queue: those before i_directory are done */
        size_t n_directories, n_directories_allocated, i_directory;
        DIR *dir;               /* the one that is being read */
        uint64_t n_entries;
        dev_t device;           /* of the working directory */

        FileList list;
        size_t i_candidate;
        int fd;                 /* the candidate that is being read */
        uint64_t n_read, n_total;
        Sha256 *sha256;
        char *chunk;

        ExecFile *items;
        ExecFiles result;
        bool is_walked, is_over;
};

/* The path as it is listed where it cannot be shown as it is. */
static int presentable_path(const char *path, char **ret) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        size_t n = strlen(path), max = EXEC_FILE_PATH_BYTES_MAX - 3;
        int r;

        /* A cut through a character becomes a U+FFFD, which takes no more than its rest would have. */
        r = utf8_repair(path, MIN_OF(n, max / 3), &b);
        if (r >= 0 && n > max / 3)
                r = buffer_append_str(&b, "…");
        return r < 0 ? r : buffer_steal(&b, ret, NULL);
}

static bool is_presentable(const char *path) {
        size_t n = strlen(path);

        return n <= EXEC_FILE_PATH_BYTES_MAX && utf8_is_valid(path, n);
}

/* An entry that is not a readable file, or not yet. st may be NULL. */
static void note(FileWalk *w, const char *path, unsigned depth, const struct stat *st,
                 ExecFileReason reason) {
        FileCandidate c = { .depth = depth, .file.reason = reason };
        int r;

        if (st && S_ISREG(st->st_mode)) {
                c.file.n_bytes = (uint64_t) st->st_size;
                c.device = st->st_dev;
                c.inode = st->st_ino;
                c.is_unread = reason == EXEC_FILE_COMPLETE;
                if (__builtin_add_overflow(w->result.n_bytes, c.file.n_bytes, &w->result.n_bytes))
                        w->result.n_bytes = UINT64_MAX;
        }
        r = is_presentable(path) ? str_copy(&c.path, path) : presentable_path(path, &c.path);
        if (r < 0) {
                w->result.gaps |= EXEC_FILES_GAP_FAILED;
                return;
        }
        w->result.n_more += file_list_insert(&w->list, c);
}

static ExecFileReason reason_of(int error) {
        switch (error) {
        case EACCES:
        case EPERM:
                return EXEC_FILE_UNREADABLE;
        case ENOMEM:
        case EMFILE:
        case ENFILE:
        case EIO:
                return EXEC_FILE_FAILED;
        default:
                return EXEC_FILE_CHANGED;
        }
}

/* Below the working directory, through no link, into no other file system: each name of the path by itself,
 * for they come from directories and so are no "..". openat2(2) does the same in one call, but where
 * RestrictSUIDSGID= protects the daemon there is none: no filter can look into its arguments. */
static int open_below(const FileWalk *w, const char *path, int flags) {
        _cleanup_close_ int fd = -EBADF;
        struct stat st;

        for (const char *p = *path ? path : "."; *p;) {
                size_t n = strcspn(p, "/");
                char name[NAME_MAX + 1];
                int next;

                if (n > NAME_MAX)
                        return -ENAMETOOLONG;
                memcpy(name, p, n);
                name[n] = '\0';
                next = openat(fd < 0 ? w->p.directory_fd : fd, name, O_NOFOLLOW | O_CLOEXEC |
                              (p[n] == '/' ? O_PATH | O_DIRECTORY :
                                             O_RDONLY | O_NONBLOCK | O_NOCTTY | flags));
                if (next < 0)
                        return -errno;
                safe_close(fd);
                fd = next;
                p += n + (p[n] == '/');
        }
        if (fstat(fd, &st) < 0)
                return -errno;
        return st.st_dev == w->device ? TAKE_FD(fd) : -EXDEV;
}

/* ---- The first pass ---- */

static int push_directory(FileWalk *w, char *take_path, unsigned depth) {
        if (w->n_directories == w->n_directories_allocated) {
                size_t n = MAX_OF(w->n_directories_allocated * 2, (size_t) 16);
                Directory *d = reallocarray(w->directories, n, sizeof(Directory));

                if (!d)
                        return -ENOMEM;
                w->directories = d;
                w->n_directories_allocated = n;
        }
        w->directories[w->n_directories++] = (Directory) { take_path, depth };
        return 0;
}

static void pop_directory(FileWalk *w) {
        free(w->directories[w->i_directory].path);
        w->directories[w->i_directory++].path = NULL;
}

/* What is there for ourselves: the program as it was sent, and what an interpreter leaves beside modules. */
static bool is_ours(const char *name, unsigned depth, mode_t mode) {
        return (depth == 0 && S_ISREG(mode) && streq(name, "main.py")) ||
                (S_ISDIR(mode) && streq(name, "__pycache__"));
}

static void look_at_directory(FileWalk *w, const char *path, unsigned depth) {
        _cleanup_free_ char *copy = NULL, *shown = NULL;
        ExecFileReason reason = EXEC_FILE_NAME;

        if (is_presentable(path) && strlen(path) < EXEC_FILE_PATH_BYTES_MAX) {
                if (depth < w->p.settings->max_files_depth) {
                        if (w->n_directories - w->i_directory >= DIRECTORIES_MAX)
                                w->result.gaps |= EXEC_FILES_GAP_ENTRIES;
                        else if (str_copy(&copy, path) < 0 || push_directory(w, copy, depth + 1) < 0)
                                w->result.gaps |= EXEC_FILES_GAP_FAILED;
                        else
                                TAKE_PTR(copy);
                        return;
                }
                reason = EXEC_FILE_TOO_DEEP;
        }
        if (str_printf(&shown, "%s/", path) < 0)
                w->result.gaps |= EXEC_FILES_GAP_FAILED;
        else
                note(w, shown, depth, NULL, reason);
}

static void look_at_entry(FileWalk *w, const Directory *d, const char *name) {
        _cleanup_free_ char *path = NULL;
        struct stat st;

        if (str_printf(&path, "%s%s%s", d->path, *d->path ? "/" : "", name) < 0) {
                w->result.gaps |= EXEC_FILES_GAP_FAILED;
                return;
        }
        if (fstatat(dirfd(w->dir), name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0) {
                note(w, path, d->depth, NULL, reason_of(errno));
                return;
        }
        if (is_ours(name, d->depth, st.st_mode))
                return;
        if (S_ISDIR(st.st_mode))
                look_at_directory(w, path, d->depth);
        else
                note(w, path, d->depth, &st,
                     S_ISLNK(st.st_mode) ? EXEC_FILE_LINK :
                     !S_ISREG(st.st_mode) ? EXEC_FILE_SPECIAL :
                     !is_presentable(path) ? EXEC_FILE_NAME :
                                             EXEC_FILE_COMPLETE);
}

static void open_directory(FileWalk *w, const Directory *d) {
        _cleanup_close_ int fd = open_below(w, d->path, O_DIRECTORY);
        _cleanup_free_ char *shown = NULL;

        if (fd >= 0) {
                w->dir = fdopendir(fd);
                if (w->dir) {
                        TAKE_FD(fd);
                        return;
                }
                safe_close(fd);
                fd = -ENOMEM;
        }
        if (d->depth == 0 || str_printf(&shown, "%s/", d->path) < 0)
                w->result.gaps |= EXEC_FILES_GAP_FAILED;
        else
                note(w, shown, d->depth - 1, NULL, reason_of(-fd));
        pop_directory(w);
}

/* One entry, or one directory opened. Returns false at the end of the pass. */
static bool step_walk(FileWalk *w) {
        const struct dirent *e;

        if (w->i_directory == w->n_directories)
                return false;
        if (!w->dir) {
                open_directory(w, w->directories + w->i_directory);
                return true;
        }
        errno = 0;
        e = readdir(w->dir);
        if (!e) {
                if (errno != 0)
                        w->result.gaps |= EXEC_FILES_GAP_FAILED;
                (void) closedir(w->dir);
                w->dir = NULL;
                pop_directory(w);
                return true;
        }
        if (streq(e->d_name, ".") || streq(e->d_name, ".."))
                return true;
        if (w->n_entries++ >= ENTRIES_MAX) {
                w->result.gaps |= EXEC_FILES_GAP_ENTRIES;
                return false;
        }
        look_at_entry(w, w->directories + w->i_directory, e->d_name);
        return true;
}

/* ---- The second pass ---- */

static const ExecInputFile* find_input(const FileWalk *w, const FileCandidate *c) {
        const ExecRequest *q = w->p.request;

        for (size_t i = 0; c->depth == 0 && i < q->n_files; i++)
                if (q->files[i].n_bytes == c->file.n_bytes && streq(q->files[i].name, c->path))
                        return &q->files[i];
        return NULL;
}

static void give_up(FileWalk *w, FileCandidate *c, ExecFileReason reason) {
        w->fd = safe_close(w->fd);
        w->sha256 = sha256_free(w->sha256);
        free(c->data);
        c->data = NULL;
        c->is_unread = c->is_input = false;
        c->file.reason = reason;
}

/* From its first byte on, to be kept. Not for inputs that are still what they were. */
static void begin_content(FileWalk *w, FileCandidate *c) {
        const Settings *s = w->p.settings;

        c->is_input = false;
        w->n_read = 0;
        if (c->file.n_bytes > s->max_file_bytes) {
                give_up(w, c, EXEC_FILE_TOO_LARGE);
                return;
        }
        if (c->file.n_bytes > s->max_files_bytes - w->n_total) {
                give_up(w, c, EXEC_FILE_TOTAL);
                return;
        }
        c->data = malloc(c->file.n_bytes + 1);
        w->sha256 = sha256_new();
        if (!c->data || !w->sha256 || lseek(w->fd, 0, SEEK_SET) < 0)
                give_up(w, c, EXEC_FILE_FAILED);
}

static void begin_file(FileWalk *w, FileCandidate *c) {
        struct stat st;

        c->is_input = find_input(w, c);
        /* Not worth opening, and never read: a sparse file costs nothing to make. */
        if (!c->is_input && c->file.n_bytes > w->p.settings->max_file_bytes) {
                give_up(w, c, EXEC_FILE_TOO_LARGE);
                return;
        }
        w->fd = open_below(w, c->path, 0);
        if (w->fd < 0) {
                give_up(w, c, reason_of(-w->fd));
                return;
        }
        if (fstat(w->fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_dev != c->device ||
            st.st_ino != c->inode || (uint64_t) st.st_size != c->file.n_bytes) {
                give_up(w, c, EXEC_FILE_CHANGED);
                return;
        }
        w->n_read = 0;
        if (!c->is_input)
                begin_content(w, c);
}

static void end_file(FileWalk *w, FileCandidate *c) {
        w->n_total += c->file.n_bytes;
        c->data[c->file.n_bytes] = '\0';
        sha256_hex_end(w->sha256, c->file.sha256);
        w->sha256 = sha256_free(w->sha256);
        w->fd = safe_close(w->fd);
        c->is_unread = false;
}

static void read_content(FileWalk *w, FileCandidate *c) {
        size_t n_wanted = (size_t) MIN_OF(CHUNK_BYTES, c->file.n_bytes - w->n_read);
        char *to = c->is_input ? w->chunk : c->data + w->n_read;
        ssize_t n;

        if (n_wanted == 0) {
                if (c->is_input) { /* as it was sent: no news for anybody */
                        give_up(w, c, EXEC_FILE_COMPLETE);
                        c->is_input = true;
                } else
                        end_file(w, c);
                return;
        }
        n = read(w->fd, to, n_wanted);
        if (n < 0 && errno == EINTR)
                return;
        if (n <= 0) {
                give_up(w, c, n < 0 ? reason_of(errno) : EXEC_FILE_CHANGED);
                return;
        }
        if (!c->is_input)
                sha256_add(w->sha256, to, (size_t) n);
        else if (memcmp(to, find_input(w, c)->data + w->n_read, (size_t) n) != 0) {
                begin_content(w, c);
                return;
        }
        w->n_read += (size_t) n;
}

static bool step_read(FileWalk *w) {
        FileCandidate *c = w->list.items + w->i_candidate;

        if (w->i_candidate == w->list.n_items)
                return false;
        if (!c->is_unread)
                w->i_candidate++;
        else if (w->fd < 0)
                begin_file(w, c);
        else
                read_content(w, c);
        return true;
}

/* ---- The whole ---- */

static bool step(FileWalk *w) {
        if (!w->is_walked) {
                w->is_walked = !step_walk(w);
                return true;
        }
        return step_read(w);
}

/* The candidates that are somebody's business become the result. */
static void finish(FileWalk *w) {
        for (size_t i = 0; i < w->list.n_items; i++) {
                FileCandidate *c = w->list.items + i;

                if (c->is_unread)
                        give_up(w, c, EXEC_FILE_TIME);
                else if (c->is_input)
                        continue;
                if (w->result.n_items == w->p.settings->max_files) {
                        w->result.n_more++;
                        continue;
                }
                c->file.path = c->path;
                c->file.data = c->data;
                w->items[w->result.n_items++] = c->file;
        }
        w->result.items = w->items;
        w->is_over = true;
}

static int on_turn(sd_event_source *s, void *userdata) {
        FileWalk *w = userdata;
        uint64_t end_usec = now_monotonic_usec() + SLICE_USEC;

        while (step(w))
                if (now_monotonic_usec() >= end_usec) {
                        if (sd_event_source_set_enabled(s, SD_EVENT_ONESHOT) >= 0)
                                return 0;
                        w->result.gaps |= EXEC_FILES_GAP_FAILED;
                        break;
                }
        finish(w);
        w->p.on_done(w->p.userdata);
        return 0;
}

int file_walk_new(const FileWalkParameters *p, FileWalk **ret) {
        _cleanup_(file_walk_freep) FileWalk *w = NULL;
        _cleanup_free_ char *root = NULL;
        struct stat st;
        int r;

        assert(p && p->event && p->settings && p->request && p->on_done);
        assert(p->directory_fd >= 0);
        assert(p->settings->max_files > 0 && p->settings->max_files <= EXEC_FILES_MAX);
        assert(ret);

        w = calloc(1, sizeof(*w));
        if (!w)
                return -ENOMEM;
        w->p = *p;
        w->fd = -EBADF;
        if (fstat(p->directory_fd, &st) < 0)
                return -errno;
        w->device = st.st_dev;
        /* Inputs are told from outputs only when they are read. */
        r = file_list_init(&w->list, p->settings->max_files + p->request->n_files);
        if (r < 0)
                return r;
        w->items = calloc(p->settings->max_files, sizeof(ExecFile));
        w->chunk = malloc(CHUNK_BYTES);
        if (!w->items || !w->chunk)
                return -ENOMEM;
        r = str_copy(&root, "");
        if (r >= 0)
                r = push_directory(w, root, 0);
        if (r < 0)
                return r;
        TAKE_PTR(root);
        r = sd_event_add_defer(p->event, &w->source, on_turn, w);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(w);
        return 0;
}

FileWalk* file_walk_free(FileWalk *w) {
        if (!w)
                return NULL;
        sd_event_source_disable_unref(w->source);
        if (w->dir)
                (void) closedir(w->dir);
        for (size_t i = 0; i < w->n_directories; i++)
                free(w->directories[i].path);
        free(w->directories);
        file_list_done(&w->list);
        safe_close(w->fd);
        sha256_free(w->sha256);
        free(w->chunk);
        free(w->items);
        free(w);
        return NULL;
}

void file_walk_stop(FileWalk *w) {
        assert(w);

        if (w->is_over)
                return;
        w->source = sd_event_source_disable_unref(w->source);
        if (!w->is_walked)
                w->result.gaps |= EXEC_FILES_GAP_TIME;
        finish(w);
}

const ExecFiles* file_walk_result(const FileWalk *w) {
        assert(w && w->is_over);
        return &w->result;
}
