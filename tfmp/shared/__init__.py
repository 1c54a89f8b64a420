"""The ground floor of both wings: import its modules directly, before any framework."""
