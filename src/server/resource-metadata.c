/* SPDX-License-Identifier: MIT */

#include "server/resource-metadata.h"

#include <fcntl.h>

#include "base/fd.h"
#include "base/strv.h"
#include "json/json.h"

#define METADATA_BYTES_MAX (64 * KIB)
#define WELL_KNOWN "/.well-known/oauth-protected-resource"

static int refuse(const char *path, const char *what, char **reterr_message) {
        int r = str_printf(reterr_message, "%s: %s", path, what);

        return r < 0 ? r : -EBADMSG;
}

/* https://HOST/PATH -> https://HOST/.well-known/…/PATH (RFC 9728 §3.1). It goes into a header. */
static int make_url(const char *resource, char **ret) {
        static const char allowed[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:/.-_~%[]";
        static const char http[] = "http://", https[] = "https://";
        size_t n_scheme = strncmp(resource, https, strlen(https)) == 0 ? strlen(https) :
                          strncmp(resource, http, strlen(http)) == 0   ? strlen(http) :
                                                                         0;
        size_t n_host = strcspn(resource + n_scheme, "/");
        const char *path = resource + n_scheme + n_host;

        if (n_scheme == 0 || n_host == 0 || resource[strspn(resource, allowed)] != 0)
                return -EINVAL;
        if (streq(path, "/"))
                path = "";
        return str_printf(ret, "%.*s" WELL_KNOWN "%s", (int) (n_scheme + n_host), resource, path);
}

static int check(const char *path, ResourceMetadata *m, char **reterr_message) {
        const JsonValue *servers;
        const char *resource = NULL;
        JsonValue *root = NULL;
        int r;

        r = json_parse(m->text, strlen(m->text), &root);
        if (r < 0)
                return r;
        servers = json_member(root, "authorization_servers");
        if (r != 0 || json_type(root) != JSON_OBJECT)
                r = refuse(path, "not a JSON object", reterr_message);
        else if (!servers || json_type(servers) != JSON_ARRAY)
                r = refuse(path, "\"authorization_servers\" is missing or no array", reterr_message);
        else if (!json_get_string(json_member(root, "resource"), &resource, NULL))
                r = refuse(path, "\"resource\" is missing: the address of /mcp as clients know it",
                           reterr_message);
        else {
                r = make_url(resource, &m->url);
                if (r == -EINVAL)
                        r = refuse(path, "\"resource\" is not an https:// address", reterr_message);
        }
        (void) json_free(root);
        return r;
}

int resource_metadata_load(const char *path, ResourceMetadata *ret, char **reterr_message) {
        ResourceMetadata m = {};
        int r;

        assert(ret);
        assert(reterr_message);

        if (path) {
                r = file_read(AT_FDCWD, path, METADATA_BYTES_MAX, &m.text, NULL);
                if (r == -ENOMEM)
                        return r;
                if (r < 0 && r != -ENOENT)
                        return refuse(path,
                                      r == -EACCES                ? strerrordesc_np(EACCES) :
                                      r == -EISDIR || r == -EBADF ? "is no regular file" :
                                              "cannot be read as a text file of at most 64 KiB",
                                      reterr_message);
                r = m.text ? check(path, &m, reterr_message) : 0;
                if (r < 0) {
                        resource_metadata_done(&m);
                        return r;
                }
        }
        *ret = m;
        return 0;
}

void resource_metadata_done(ResourceMetadata *m) {
        free(m->text);
        free(m->url);
        *m = (ResourceMetadata) {};
}
