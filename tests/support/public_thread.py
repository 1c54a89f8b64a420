"""A thread of a public issue tracker, of which a case is a small copy."""


class Thread:
    """A base of cases.

    Attributes:
        thread: where it was made, as in "owner/name#7".
    """

    thread: str

    @property
    def link(self) -> str:
        """The address of the thread."""
        repository, number = self.thread.split("#")
        return f"https://github.com/{repository}/issues/{number}"

    @property
    def name(self) -> str:
        """As a file or a test can be named."""
        return self.thread.replace("/", "-").replace("#", "-")
