"""A task of an experiment whose runs are made up."""

TASK = {
    "name": "toy",
    "about": "Made-up numbers.",
    "metric": "accuracy",
    "sign": 1,
    "margin": 0.01,
    "epochs": 4,
    "batch_size": 32,
    "train_samples": 1000,
    "test_samples": 2000,
    "weights": 1234,
    "optimizer": "Adam",
    "epsilon": 1e-7,
    "fingerprint": "0",
    "backend": "tensorflow",
    "device": "CPU",
}
