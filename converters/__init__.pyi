from .conversion import convert as convert
from .drift import DriftBudget as DriftBudget
from .intake import open_source as open_source
from .report import Artifact as Artifact, DriftReport as DriftReport
from .tracking import log_to_mlflow as log_to_mlflow
from .validation import validate as validate
