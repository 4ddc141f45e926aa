"""`make demo`: a whole hub on this machine, with sample environments evaluated by a real (tiny) language model."""
