"""What is done to the test photos before a model embeds them: one condition, one file."""
