"""Text prompts: cleaning as upstream's tokenizer does."""
