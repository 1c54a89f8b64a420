"""The foundation of all rooms of the converters. Import its modules one by one."""
