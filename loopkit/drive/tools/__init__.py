"""Tools that agents call: what each kind does, and the conversation around them."""
