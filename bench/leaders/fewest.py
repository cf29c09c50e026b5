"""The fewest changes of who leads, by an exact solver."""

from fractions import Fraction

SECONDS = 60


def fewest(groups, level, rates):
    """The fewest changes with which no server takes longer than `level`, and whether that is proved.

    Groups are (weight, who leads, those that may lead); a server takes what it leads over its rate.
    """
    from ortools.sat.python import cp_model
    model = cp_model.CpModel()
    led, stays = {server: [] for server in rates}, []
    for weight, leader, eligible in groups:
        choice = {server: model.new_bool_var("") for server in eligible}
        model.add_exactly_one(choice.values())
        stays.append(choice[leader])
        for server, chosen in choice.items():
            led[server].append(weight * chosen)
    for server, weights in led.items():
        # Rates are whole numbers, and so are weights: exact.
        model.add(sum(weights) <= int(Fraction(level) * rates[server]))
    model.maximize(sum(stays))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = SECONDS, 2
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, False
    return len(groups) - round(solver.best_objective_bound), status == cp_model.OPTIMAL
