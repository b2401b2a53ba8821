"""What zoetrope.patch did to a model."""
import collections

REPLACED, WITHIN, LEFT = "replaced", "within", "left"

Row = collections.namedtuple("Row", "path cls outcome why")
Row.__doc__ = "A module: its path, its class's full name, the outcome, and what was put in place or why it was left."


class Report:
    """Rows, one a module, in the order of model.named_modules(). str() sums them up by class."""

    def __init__(self, model, rows):
        self.model, self.rows = model, list(rows)

    def of(self, outcome):
        return [row for row in self.rows if row.outcome == outcome]

    @property
    def replaced(self):
        return self.of(REPLACED)

    @property
    def within(self):
        return self.of(WITHIN)

    @property
    def left(self):
        return self.of(LEFT)

    def __str__(self):
        keys = [(row.cls.rpartition(".")[2], row.outcome, row.why) for row in self.rows]
        counted, first = collections.Counter(keys), {}
        for row, key in zip(self.rows, keys):
            first.setdefault(key, row.path or "the model itself")
        lines = [f"zoetrope.patch of {self.model}: {len(self.replaced)} modules replaced, {len(self.within)} within "
                 f"those, {len(self.left)} left"]
        for outcome in (REPLACED, WITHIN, LEFT):
            for key, count in counted.items():
                if key[1] == outcome:
                    example = first[key] + (", ..." if count > 1 else "")
                    lines.append(f"  {outcome:<8} {count:>4} {key[0]}: {key[2]} ({example})")
        return "\n".join(lines)
