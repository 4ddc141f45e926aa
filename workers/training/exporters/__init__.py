"""A run's metrics on their way to other systems: JSON lines, TensorBoard, MLflow, Weights & Biases. Free of torch."""
