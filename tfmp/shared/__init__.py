"""What both wings stand on. Entered module by module: it is loaded before any framework."""
