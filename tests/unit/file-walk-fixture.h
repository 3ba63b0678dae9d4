/* SPDX-License-Identifier: MIT */

#pragma once

/* A working directory on a real file system, and the walk through it. */

#include "exec/file-walk.h"
#include "files.h"

#define STRANGER 65534 /* a uid that owns nothing */

typedef struct Setup {
        char *tree;
        Settings *settings;
        ExecRequest *request;
        sd_event *event;
        FileWalk *walk;
        int fd;
        unsigned n_done;
} Setup;

static void on_done(void *userdata) {
        Setup *s = userdata;

        s->n_done++;
}

static Setup* setup_new(void) {
        static Setup s;

        s = (Setup) { .tree = make_tree() };
        ASSERT_EQ_INT(chmod(s.tree, 0755), 0);
        ASSERT_EQ_INT(settings_new_default(&s.settings), 0);
        ASSERT_EQ_INT(exec_request_new(&s.request), 0);
        ASSERT_TRUE(sd_event_new(&s.event) >= 0);
        s.fd = open(s.tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ASSERT_TRUE(s.fd >= 0);
        return &s;
}

static void setup_free(Setup *s) {
        s->walk = file_walk_free(s->walk);
        exec_request_free(s->request);
        settings_free(s->settings);
        sd_event_unref(s->event);
        safe_close(s->fd);
        remove_treep(&s->tree);
}

static void begin(Setup *s) {
        s->walk = file_walk_free(s->walk);
        s->n_done = 0;
        ASSERT_EQ_INT(file_walk_new(&(const FileWalkParameters) { .event = s->event,
                                                                  .directory_fd = s->fd,
                                                                  .settings = s->settings,
                                                                  .request = s->request,
                                                                  .on_done = on_done,
                                                                  .userdata = s },
                                    &s->walk),
                      0);
}

static const ExecFiles* walk(Setup *s) {
        begin(s);
        while (s->n_done == 0)
                ASSERT_TRUE(sd_event_run(s->event, 10 * USEC_PER_SEC) > 0);
        ASSERT_EQ_UINT(s->n_done, 1);
        return file_walk_result(s->walk);
}

__attribute__((__unused__)) static char* path_of(const Setup *s, const char *name) {
        char *path = NULL;

        ASSERT_EQ_INT(str_printf(&path, "%s/%s", s->tree, name), 0);
        return path;
}

__attribute__((__unused__)) static void set_mode(const Setup *s, const char *name, mode_t mode) {
        _cleanup_free_ char *path = path_of(s, name);

        ASSERT_EQ_INT(chmod(path, mode), 0);
}

__attribute__((__unused__)) static void put_node(const Setup *s, const char *name, mode_t mode,
                                                 dev_t device) {
        _cleanup_free_ char *path = path_of(s, name);

        ASSERT_EQ_INT(mknod(path, mode, device), 0);
}

__attribute__((__unused__)) static void put_sparse(const Setup *s, const char *name, off_t n_bytes) {
        _cleanup_free_ char *path = path_of(s, name);

        put_file(s->tree, name, "");
        ASSERT_EQ_INT(truncate(path, n_bytes), 0);
}

static void check(const ExecFiles *f, size_t i, const char *path, uint64_t n_bytes, ExecFileReason reason,
                  const char *data) {
        ASSERT_TRUE(i < f->n_items);
        ASSERT_EQ_STR(f->items[i].path, path);
        ASSERT_EQ_UINT(f->items[i].n_bytes, n_bytes);
        ASSERT_EQ_INT(f->items[i].reason, reason);
        if (data)
                ASSERT_EQ_MEM(f->items[i].data, f->items[i].n_bytes, data, strlen(data));
        else
                ASSERT_TRUE(!f->items[i].data);
}

/* As the daemon: another uid than the one that made the files. */
__attribute__((__unused__)) static void become_stranger(void) {
        if (geteuid() == 0)
                ASSERT_EQ_INT(seteuid(STRANGER), 0);
}

__attribute__((__unused__)) static void become_root_again(void) {
        if (getuid() == 0)
                ASSERT_EQ_INT(seteuid(0), 0);
}
