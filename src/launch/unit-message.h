/* SPDX-License-Identifier: MIT */
#pragma once

/* UnitSpec -> the D-Bus call StartTransientUnit. */

#include <systemd/sd-bus.h>

#include "launch/unit-spec.h"

#define MANAGER_NAME "org.freedesktop.systemd1"
#define MANAGER_PATH "/org/freedesktop/systemd1"
#define MANAGER_INTERFACE "org.freedesktop.systemd1.Manager"
#define UNIT_INTERFACE "org.freedesktop.systemd1.Unit"
#define SERVICE_INTERFACE "org.freedesktop.systemd1.Service"
#define PROPERTIES_INTERFACE "org.freedesktop.DBus.Properties"

/* The message holds duplicates of the descriptors. */
int unit_message_start(sd_bus *bus, const char *name, const UnitSpec *spec, const int fds[static _WIRE_FD_MAX],
                       sd_bus_message **ret);

/* SetUnitProperties, until the unit's end only. */
int unit_message_limits(sd_bus *bus, const char *name, const WireLimits *limits, sd_bus_message **ret);
