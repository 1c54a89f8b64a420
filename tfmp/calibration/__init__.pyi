from .measure import calibrate as calibrate, labelled_batches as labelled_batches
from .report import check_report_path as check_report_path
