/* SPDX-License-Identifier: MIT */

#include <pwd.h>

#include "base/macro.h"
#include "files.h"
#include "runner/runner.h"
#include "test.h"

static mode_t mode_of(const char *tree, const char *name) {
        _cleanup_free_ char *path = NULL;
        struct stat st;

        ASSERT_EQ_INT(str_printf(&path, "%s/%s", tree, name), 0);
        ASSERT_EQ_INT(lstat(path, &st), 0);
        return st.st_mode;
}

TEST(world_has_its_directories) {
        _cleanup_tree_ char *tree = make_tree();
        const RunnerPlaces places = { .tmp = tree, .hook = "/hook", .fonts = "/nonexistent" };
        static const char *const directories[] = {
                "work", "home", "home/.cache", "home/.config/matplotlib",
        };

        (void) umask(077);
        ASSERT_EQ_INT(world_prepare(&places), 0);
        ASSERT_EQ_INT(umask(022), 022);
        for (size_t i = 0; i < ELEMENTSOF(directories); i++)
                ASSERT_EQ_INT(mode_of(tree, directories[i]), S_IFDIR | 0755);
}

TEST(world_knows_its_user) {
        _cleanup_tree_ char *tree = make_tree();
        const RunnerPlaces places = { .tmp = tree, .hook = "/hook", .fonts = "/nonexistent" };
        _cleanup_free_ char *path = NULL;
        const struct passwd *entry;
        FILE *f;

        ASSERT_EQ_INT(world_prepare(&places), 0);
        ASSERT_EQ_INT(str_printf(&path, "%s/home/.etc/passwd", tree), 0);
        ASSERT_TRUE((f = fopen(path, "re")));
        do
                ASSERT_TRUE((entry = fgetpwent(f)));
        while (!streq(entry->pw_name, "sandbox"));
        ASSERT_EQ_UINT(entry->pw_uid, getuid());
        ASSERT_EQ_UINT(entry->pw_gid, getgid());
        ASSERT_EQ_STR(entry->pw_dir, "/tmp/home");
        (void) fclose(f);
}

TEST(world_is_made_only_once) {
        _cleanup_tree_ char *tree = make_tree();
        const RunnerPlaces places = { .tmp = tree, .hook = "/hook", .fonts = "/nonexistent" };

        ASSERT_EQ_INT(world_prepare(&places), 0);
        ASSERT_EQ_INT(world_prepare(&places), -EEXIST);
}

TEST(prepared_fonts_are_linked) {
        _cleanup_tree_ char *tree = make_tree(), *fonts = make_tree();
        const RunnerPlaces places = { .tmp = tree, .hook = "/hook", .fonts = fonts };
        _cleanup_free_ char *path = NULL, *expected = NULL;
        char target[256] = "";

        put_file(fonts, "fontlist-v390.json", "{}");
        put_file(fonts, ".new", "half");
        ASSERT_EQ_INT(world_prepare(&places), 0);

        ASSERT_EQ_INT(str_printf(&path, "%s/home/.config/matplotlib/fontlist-v390.json", tree), 0);
        ASSERT_EQ_INT(str_printf(&expected, "%s/fontlist-v390.json", fonts), 0);
        ASSERT_TRUE(readlink(path, target, sizeof(target) - 1) > 0);
        ASSERT_EQ_STR(target, expected);

        free(TAKE_PTR(path));
        ASSERT_EQ_INT(str_printf(&path, "%s/home/.config/matplotlib/.new", tree), 0);
        ASSERT_EQ_INT(readlink(path, target, sizeof(target)), -1);
}

TEST(working_directory_has_no_name) {
        _cleanup_tree_ char *tree = make_tree();
        const RunnerPlaces places = { .tmp = tree, .hook = "/hook", .fonts = "/nonexistent" };
        char here[1024];

        ASSERT_EQ_INT(world_prepare(&places), 0);
        ASSERT_EQ_INT(world_enter_nowhere(&places), 0);
        ASSERT_TRUE(!getcwd(here, sizeof(here)));
        ASSERT_EQ_INT(errno, ENOENT);
        ASSERT_EQ_INT(chdir("/"), 0);
}

static const char* variable(const RunnerEnvironment *e, const char *name) {
        size_t n = strlen(name);

        for (size_t i = 0; e->entries[i]; i++)
                if (strncmp(e->entries[i], name, n) == 0 && e->entries[i][n] == '=')
                        return e->entries[i] + n + 1;

        return NULL;
}

TEST(environment_is_made_from_nothing) {
        const RunnerPlaces places = { .tmp = "/tmp", .hook = "/hook", .fonts = "/fonts", .stubs = "/stubs" };
        const RunnerFacts facts = {};
        char token[] = "API_TOKEN=secret", home[] = "HOME=/home/alice", path[] = "PYTHONPATH=/evil";
        char *const inherited[] = { token, home, path, NULL };
        static const char *const expected[] = {
                "PYTHONPATH=/hook", "HOME=/tmp/home", "LANG=C.UTF-8", "LOGNAME=sandbox", "MPLBACKEND=Agg",
                "MPLCONFIGDIR=/tmp/home/.config/matplotlib", "PATH=/stubs:/usr/local/bin:/usr/bin:/bin",
                "PYTHONUNBUFFERED=1", "TMPDIR=/tmp", "USER=sandbox", "XDG_CACHE_HOME=/tmp/home/.cache",
        };
        RunnerEnvironment e;

        ASSERT_EQ_INT(world_environment(&places, &facts, inherited, &e), 0);
        ASSERT_EQ_UINT(e.n_entries, ELEMENTSOF(expected));
        for (size_t i = 0; i < ELEMENTSOF(expected); i++)
                ASSERT_EQ_STR(e.entries[i], expected[i]);
        ASSERT_TRUE(!e.entries[e.n_entries]);
}

TEST(environment_keeps_thread_counts_only_as_numbers) {
        const RunnerPlaces places = { .tmp = "/tmp", .hook = "/hook", .fonts = "/fonts", .stubs = "/stubs" };
        const RunnerFacts facts = {};
        char good[] = "OMP_NUM_THREADS=2", text[] = "MKL_NUM_THREADS=2x", empty[] = "RAYON_NUM_THREADS=",
             large[] = "NUMBA_NUM_THREADS=123456", other[] = "OMP_NUM_THREADS_X=1",
             sign[] = "BLIS_NUM_THREADS=-1";
        char *const inherited[] = { text, empty, large, other, sign, good, NULL };
        RunnerEnvironment e;

        ASSERT_EQ_INT(world_environment(&places, &facts, inherited, &e), 0);
        ASSERT_EQ_STR(variable(&e, "OMP_NUM_THREADS"), "2");
        ASSERT_EQ_STR(variable(&e, "MKL_NUM_THREADS"), NULL);
        ASSERT_EQ_STR(variable(&e, "RAYON_NUM_THREADS"), NULL);
        ASSERT_EQ_STR(variable(&e, "NUMBA_NUM_THREADS"), NULL);
        ASSERT_EQ_STR(variable(&e, "BLIS_NUM_THREADS"), NULL);
        ASSERT_EQ_STR(variable(&e, "OMP_NUM_THREADS_X"), NULL);
}

TEST(environment_that_does_not_fit_is_an_error) {
        const RunnerPlaces places = { .tmp = "/tmp", .hook = "/hook", .fonts = "/fonts", .stubs = "/stubs" };
        const RunnerFacts facts = {};
        char same[] = "OMP_NUM_THREADS=2";
        char *inherited[RUNNER_ENVIRON_MAX + 1] = {};
        RunnerEnvironment e;

        for (size_t i = 0; i < RUNNER_ENVIRON_MAX; i++)
                inherited[i] = same;
        ASSERT_EQ_INT(world_environment(&places, &facts, inherited, &e), -E2BIG);
}

TEST(environment_of_a_set_puts_it_first) {
        const RunnerPlaces places = { .tmp = "/tmp", .hook = "/hook", .fonts = "/fonts", .stubs = "/stubs" };
        const RunnerFacts facts = { .set = "/env" };
        RunnerEnvironment e;

        ASSERT_EQ_INT(world_environment(&places, &facts, NULL, &e), 0);
        ASSERT_EQ_STR(variable(&e, "PATH"), "/env/bin:/stubs:/usr/local/bin:/usr/bin:/bin");
        ASSERT_EQ_STR(variable(&e, "VIRTUAL_ENV"), "/env");
        ASSERT_EQ_STR(variable(&e, "PYTHONPATH"), "/hook");
}

TEST(environment_of_fetch_alone_has_the_credentials) {
        const RunnerPlaces places = { .tmp = "/tmp", .hook = "/hook", .fonts = "/fonts", .stubs = "/stubs" };
        char good[] = "CREDENTIALS_DIRECTORY=/run/credentials/unit", token[] = "API_TOKEN=x",
             bad[] = "CREDENTIALS_DIRECTORY=/home/alice";
        char *const inherited[] = { token, good, NULL }, *const others[] = { bad, NULL };
        RunnerFacts facts = { .profile = RUNNER_PROFILE_FETCH };
        RunnerEnvironment e;

        ASSERT_EQ_INT(world_environment(&places, &facts, inherited, &e), 0);
        ASSERT_EQ_STR(variable(&e, "CREDENTIALS_DIRECTORY"), "/run/credentials/unit");
        ASSERT_EQ_STR(variable(&e, "API_TOKEN"), NULL);
        ASSERT_EQ_STR(variable(&e, "VIRTUAL_ENV"), NULL);
        ASSERT_EQ_INT(world_environment(&places, &facts, others, &e), 0);
        ASSERT_EQ_STR(variable(&e, "CREDENTIALS_DIRECTORY"), NULL);
        facts.profile = RUNNER_PROFILE_INSTALL;
        ASSERT_EQ_INT(world_environment(&places, &facts, inherited, &e), 0);
        ASSERT_EQ_STR(variable(&e, "CREDENTIALS_DIRECTORY"), NULL);
        facts.profile = RUNNER_PROFILE_RUN;
        ASSERT_EQ_INT(world_environment(&places, &facts, inherited, &e), 0);
        ASSERT_EQ_STR(variable(&e, "CREDENTIALS_DIRECTORY"), NULL);
}
