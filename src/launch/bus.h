/* SPDX-License-Identifier: MIT */
#pragma once

/* What systemd's D-Bus interfaces are called, and the one loop that reads their properties. */

#include <systemd/sd-bus.h>

#define MANAGER_NAME "org.freedesktop.systemd1"
#define MANAGER_PATH "/org/freedesktop/systemd1"
#define MANAGER_INTERFACE "org.freedesktop.systemd1.Manager"
#define UNIT_INTERFACE "org.freedesktop.systemd1.Unit"
#define SERVICE_INTERFACE "org.freedesktop.systemd1.Service"
#define PROPERTIES_INTERFACE "org.freedesktop.DBus.Properties"

/* Reads an array of properties, a{sv}. take gets each name and must read or skip the variant that
 * follows. */
int bus_read_properties(sd_bus_message *m, int (*take)(sd_bus_message *m, const char *name, void *userdata),
                        void *userdata);

/* The property that StartTransientUnit does not know, from its error; NULL for any other error. */
char* bus_unknown_property(const sd_bus_error *e);
