from .book import LabelBook as LabelBook, Labels as Labels
from .custom import CustomMetric as CustomMetric
from .drift import LabelDrift as LabelDrift, kinds_of as kinds_of
