"""Wire types: every JSON body that crosses a process, once. Frozen pydantic models; no Django, no torch."""
