"""Options that several commands have."""

import pytest

from tfmp.commands.options import check_reports


def test_a_link_to_nothing_is_a_report_that_exists(tmp_path):
    report = tmp_path / "r.json"
    check_reports([str(report)], [".json"], force=False)
    report.symlink_to(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"r\.json' exists\. Pass --force to overwrite it\."):
        check_reports([str(report)], [".json"], force=False)
    check_reports([str(report)], [".json"], force=True)
