/* SPDX-License-Identifier: MIT */

/* What each setting of [Packages] becomes in the orders of the programs that prepare. */

#include "python/order.h"
#include "test.h"

/* Every setting that is for one of those programs. */
static const struct {
        const char *key, *value;
} told[] = {
        { "IndexUrl", "https://index.example/simple/" },
        { "ExtraIndexUrls", "https://one.example/simple https://two.example/simple" },
        { "IndexCredentials", "/etc/mcp-exec/netrc" },
        { "Proxy", "http://proxy.example:3128" },
        { "NoProxy", "*.corp.example 10.0.0.0/8" },
        { "InternalHosts", "files.corp.example:8443" },
        { "CaBundle", "/etc/ssl/company.pem" },
        { "PythonMirror", "https://mirror.example/pythons" },
        { "ExcludeNewer", "2026-01-31" },
        { "AllowPackages", "numpy pan*" },
        { "DenyPackages", "pandoc" },
        { "AllowDirectUrls", "yes" },
        { "AllowVcs", "yes" },
        { "AllowSourceBuilds", "yes" },
        { "AllowToolUv", "yes" },
        { "AllowPythonDownloads", "yes" },
        { "Offline", "yes" },
        { "PrepareBytesMax", "5M" },
};

static Settings* settings(bool has_told) {
        Settings *s = NULL;

        ASSERT_EQ_INT(settings_new_default(&s), 0);
        for (size_t i = 0; has_told && i < ELEMENTSOF(told); i++) {
                _cleanup_free_ char *reason = NULL;

                if (settings_set(s, "Packages", told[i].key, told[i].value, &reason) != 0)
                        FAIL("%s", reason);
        }
        return s;
}

static void assert_text(Buffer *b, const char *expected) {
        ASSERT_EQ_MEM(b->data, b->n_bytes, expected, strlen(expected));
        buffer_done(b);
}

static const SetOrder order = {
        .uv = "/mnt/uv",
        .python = "/usr/bin/python3",
        .uv_on_host = "/opt/uv",
        .requirements = (char *const[]) { (char[]) { "numpy>=2" }, (char[]) { "zed" }, NULL },
        .tool_uv = "{\"prerelease\":\"allow\"}",
        .known_locks = (char *const[]) { (char[]) { "aa" }, NULL },
        .lock = "bb",
        .budget_usec = 90 * USEC_PER_SEC + 1,
};

TEST(parse_is_told_what_a_script_may_name) {
        _cleanup_(settings_freep) Settings *plain = settings(false), *all = settings(true);
        static const WireHello hello = {
                .n_interpreters = 3,
                .interpreters = { "/usr/bin/python3", "", "/opt/python" },
        };
        char versions[INTERPRETERS_MAX][VERSION_CHARS_MAX + 1] = { "3.13.5" };
        ParseOrder o = { .script = "1\n\"", .script_bytes = 3, .hello = &hello, .settings = plain };
        Buffer b = BUFFER_INIT(0);

        ASSERT_EQ_INT(order_write_parse(&o, &b), 0);
        assert_text(&b, "{\"script\":\"1\\n\\\"\",\"dependencies\":[],\"python_version\":\"\","
                        "\"check_syntax\":false,"
                        "\"interpreters\":[{\"index\":0,\"path\":\"/usr/bin/python3\",\"version\":\"\"},"
                        "{\"index\":2,\"path\":\"/opt/python\",\"version\":\"\"}],"
                        "\"policy\":{\"allow\":[],\"deny\":[],\"direct_urls\":false,\"vcs\":false,"
                        "\"tool_uv\":false,\"python_downloads\":false}}");

        o.dependencies = order.requirements;
        o.lines = (const unsigned[]) { 4, 7 };
        o.python_version = "3.12";
        o.wants_syntax = true;
        o.versions = (const char (*)[VERSION_CHARS_MAX + 1]) versions;
        o.settings = all;
        ASSERT_EQ_INT(order_write_parse(&o, &b), 0);
        assert_text(&b, "{\"script\":\"1\\n\\\"\",\"dependencies\":[\"numpy>=2\",\"zed\"],\"lines\":[4,7],"
                        "\"python_version\":\"3.12\",\"check_syntax\":true,"
                        "\"interpreters\":[{\"index\":0,\"path\":\"/usr/bin/python3\","
                        "\"version\":\"3.13.5\"},"
                        "{\"index\":2,\"path\":\"/opt/python\",\"version\":\"\"}],"
                        "\"policy\":{\"allow\":[\"numpy\",\"pan*\"],\"deny\":[\"pandoc\"],"
                        "\"direct_urls\":true,"
                        "\"vcs\":true,\"tool_uv\":true,\"python_downloads\":true}}");
}

TEST(fetch_is_told_where_packages_come_from) {
        _cleanup_(settings_freep) Settings *plain = settings(false), *all = settings(true);
        SetOrder o = order;
        Buffer b = BUFFER_INIT(0);

        o.settings = all;
        ASSERT_EQ_INT(order_write_fetch(&o, &b), 0);
        assert_text(&b, "{\"uv\":\"/mnt/uv\",\"python\":\"/usr/bin/python3\","
                        "\"outside\":{\"/mnt/uv\":\"/opt/uv\","
                        "\"" WIRE_CA_BUNDLE_PATH "\":\"/etc/ssl/company.pem\","
                        "\"" WIRE_CREDENTIAL_NAME "\":\"/etc/mcp-exec/netrc\"},"
                        "\"requirements\":[\"numpy>=2\",\"zed\"],\"tool_uv\":{\"prerelease\":\"allow\"},"
                        "\"deny\":[\"pandoc\"],\"index_url\":\"https://index.example/simple/\","
                        "\"extra_index_urls\":[\"https://one.example/simple\","
                        "\"https://two.example/simple\"],"
                        "\"exclude_newer\":\"2026-01-31\",\"allow_source_builds\":true,\"allow_urls\":true,"
                        "\"allow_vcs\":true,\"proxy\":\"http://proxy.example:3128\","
                        "\"no_proxy\":[\"*.corp.example\",\"10.0.0.0/8\"],"
                        "\"internal_hosts\":[\"files.corp.example:8443\"],"
                        "\"ca_bundle\":\"" WIRE_CA_BUNDLE_PATH "\","
                        "\"python_mirror\":\"https://mirror.example/pythons\",\"offline\":true,"
                        "\"known_locks\":[\"aa\"],\"budget_s\":90,\"max_packages\":300,"
                        "\"max_wheel_bytes\":5242880,\"max_total_bytes\":5242880}");

        o = (SetOrder) {
                .uv = "/usr/bin/uv",
                .python = "/p",
                .uv_on_host = "/usr/bin/uv",
                .tool_uv = "{}",
                .settings = plain,
        };
        ASSERT_EQ_INT(order_write_fetch(&o, &b), 0);
        assert_text(&b, "{\"uv\":\"/usr/bin/uv\",\"python\":\"/p\",\"outside\":{},\"requirements\":[],"
                        "\"tool_uv\":{},"
                        "\"deny\":[],\"index_url\":\"\",\"extra_index_urls\":[],\"exclude_newer\":\"\","
                        "\"allow_source_builds\":false,\"allow_urls\":false,\"allow_vcs\":false,"
                        "\"proxy\":\"\","
                        "\"no_proxy\":[],\"internal_hosts\":[],\"ca_bundle\":\"\",\"python_mirror\":\"\","
                        "\"offline\":false,\"known_locks\":[],\"budget_s\":0,\"max_packages\":300,"
                        "\"max_wheel_bytes\":4294967296,\"max_total_bytes\":4294967296}");
}

TEST(install_is_told_nothing_of_networks) {
        _cleanup_(settings_freep) Settings *all = settings(true);
        SetOrder o = order;
        Buffer b = BUFFER_INIT(0);

        o.settings = all;
        ASSERT_EQ_INT(order_write_install(&o, &b), 0);
        assert_text(&b, "{\"uv\":\"/mnt/uv\",\"python\":\"/usr/bin/python3\","
                        "\"outside\":{\"/mnt/uv\":\"/opt/uv\","
                        "\"" WIRE_CA_BUNDLE_PATH "\":\"/etc/ssl/company.pem\","
                        "\"" WIRE_CREDENTIAL_NAME "\":\"/etc/mcp-exec/netrc\"},"
                        "\"requirements\":[\"numpy>=2\",\"zed\"],\"lock_sha256\":\"bb\",\"workers\":0,"
                        "\"budget_s\":90,\"max_set_bytes\":5242880}");
}

/* Else a set that was fetched under one policy or from one index would be used under another. */
TEST(settings_that_change_what_is_fetched_are_in_the_key) {
        static const char *const keys[] = { "IndexUrl", "ExtraIndexUrls", "ExcludeNewer", "DenyPackages",
                                            "AllowDirectUrls", "AllowVcs", "AllowSourceBuilds" };

        for (size_t i = 0; i < ELEMENTSOF(told); i++) {
                _cleanup_(settings_freep) Settings *s = settings(false);
                _cleanup_buffer_ Buffer before = BUFFER_INIT(0), after = BUFFER_INIT(0);
                _cleanup_free_ char *reason = NULL;
                SetOrder o = order;
                bool is_same, is_in_key = false;

                o.settings = s;
                ASSERT_EQ_INT(order_write_key(&o, &before), 0);
                ASSERT_EQ_INT(settings_set(s, "Packages", told[i].key, told[i].value, &reason), 0);
                ASSERT_EQ_INT(order_write_key(&o, &after), 0);
                is_same = before.n_bytes == after.n_bytes &&
                          memcmp(before.data, after.data, after.n_bytes) == 0;
                for (size_t k = 0; k < ELEMENTSOF(keys); k++)
                        is_in_key = is_in_key || streq(keys[k], told[i].key);
                if (is_same == is_in_key)
                        FAIL("%s= is %sin the key", told[i].key, is_same ? "not " : "");
        }
}

TEST(versions_are_asked_only_where_they_are_not_known) {
        static const WireHello hello = {
                .n_interpreters = 4,
                .interpreters = { "/usr/bin/python3", "/a", "", "/b" },
                .uv = "/mnt/uv",
        };
        char known[INTERPRETERS_MAX][VERSION_CHARS_MAX + 1] = { "", "3.12.1" };
        Buffer b = BUFFER_INIT(0);

        ASSERT_EQ_INT(order_write_versions(&hello, (const char (*)[VERSION_CHARS_MAX + 1]) known, &b), 0);
        assert_text(&b, "{\"interpreters\":[{\"index\":0,\"path\":\"/usr/bin/python3\"},"
                        "{\"index\":3,\"path\":\"/b\"}],\"uv\":\"/mnt/uv\"}");
}
