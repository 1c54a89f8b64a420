from .candidate import Candidate as Candidate
from .explainer import Explainer as Explainer, harm_of as harm_of
from .onnx_candidate import OnnxCandidate as OnnxCandidate
from .tflite_candidate import TFLiteCandidate as TFLiteCandidate
