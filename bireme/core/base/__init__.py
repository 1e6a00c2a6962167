"""What everything else stands on: errors, flags, data types, devices, random state, counters."""
