/* SPDX-License-Identifier: MIT */
#pragma once

/* UnitSpec -> the D-Bus call StartTransientUnit. */

#include <systemd/sd-bus.h>

#include "launch/bus.h"
#include "launch/unit-spec.h"

/* The message holds duplicates of the descriptors. */
int unit_message_start(sd_bus *bus, const char *name, const UnitSpec *spec,
                       const int fds[static _WIRE_FD_MAX], sd_bus_message **ret);

/* SetUnitProperties, until the unit's end only. */
int unit_message_limits(sd_bus *bus, const char *name, const WireLimits *limits, sd_bus_message **ret);
