"""Does a model's attention find the object? One-shot segmentation, judged by the dataset's truth."""
