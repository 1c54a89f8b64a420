"""Which layer of a candidate its drift comes from, and on which samples it is largest."""
