"""What every room of the converters stands on. Entered module by module."""
