/* SPDX-License-Identifier: MIT */
#pragma once

/* PackageSettings: [Packages] of mcp-exec.conf, for scripts that name the packages they need. */

#include <stdbool.h>
#include <stdint.h>

/* Strings are never NULL: "" where nothing is set. */
typedef struct PackageSettings {
        /* The launcher obeys these. */
        char *uv_path;                /* UvPath=: a name or an absolute path */
        char **extra_pythons;         /* ExtraPythons=: more interpreters, for requires-python */
        char *index_credentials;      /* IndexCredentials=: a netrc file, given to FETCH alone */
        char *ca_bundle;              /* CaBundle=: a PEM file in place of the system's */
        uint64_t prepare_memory_max_bytes, prepare_tasks_max; /* PrepareMemoryMax=, PrepareTasksMax= */

        /* The rest is the daemon's. */
        char *default_requirements;   /* DefaultRequirements=: exec's environment in place of none */
        bool is_offline;              /* Offline=: only what is there already */
        char *index_url;              /* IndexUrl=; "" is uv's own default */
        char **extra_index_urls;      /* ExtraIndexUrls= */
        char *proxy, *python_mirror;  /* Proxy=, PythonMirror= */
        char **no_proxy;              /* NoProxy=: hosts that are reached without it */
        char **internal_hosts;        /* InternalHosts=: may have addresses that no public host has */
        char *exclude_newer;          /* ExcludeNewer=: as uv takes it */
        char **allow_packages;        /* AllowPackages=: empty: all; a trailing "*" is the rest of a name */
        char **deny_packages;         /* DenyPackages=: goes before */
        bool allow_direct_urls, allow_vcs, allow_source_builds, allow_tool_uv, allow_python_downloads;
        unsigned sets_max;            /* SetsMax= */
        uint64_t sets_max_bytes;      /* SetsMaxBytes=: of all of them */
        uint64_t sets_max_age_usec;   /* SetsMaxAgeSec=: since the last use; 0 = no limit */
        unsigned prepare_parallel;    /* PrepareParallel=: sets that are made at the same time */
        uint64_t prepare_timeout_usec; /* PrepareTimeoutSec=: of one set, all steps together */
        uint64_t prepare_max_bytes;   /* PrepareBytesMax=: downloads for one set, and the set */
} PackageSettings;

typedef struct Settings Settings;

/* PrepareTasksMax=, of which the default is as much as uv needs on this machine. */
#define SETTINGS_PREPARE_TASKS_DEFAULT 512
uint64_t settings_prepare_tasks_max(const Settings *s);
