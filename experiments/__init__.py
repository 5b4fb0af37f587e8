"""The paper's experiments, coreset quality and growth: data in, records out, pages made of the records."""
