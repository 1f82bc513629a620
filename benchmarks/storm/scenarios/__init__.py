"""The scenarios, one file each: a question about retry storms and the experiment that answers it."""
