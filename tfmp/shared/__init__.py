"""The ground floor of both wings. It is loaded before any framework, so import its modules."""
