"""What comes last at an instant, several calls among themselves included."""

from simpy import Environment

from simgpu.engine.instant import Instant


def after(env, delay, call):
    timeout = env.timeout(delay)
    timeout.callbacks.append(lambda _: call())


def test_calls_come_behind_everything_else_of_their_time_and_in_their_order():
    env, told = Environment(), []
    instant = Instant(env)

    def begin():
        instant.last(lambda: told.append(("first", env.now)))
        instant.last(lambda: told.append(("second", env.now)))
        after(env, 0, lambda: after(env, 0, lambda: told.append(("event", env.now))))

    after(env, 5, begin)
    after(env, 6, lambda: told.append(("later", env.now)))
    env.run()
    assert told == [("event", 5), ("first", 5), ("second", 5), ("later", 6)]


def test_what_a_call_makes_happen_comes_before_the_next_call():
    env, told = Environment(), []
    instant = Instant(env)

    def first():
        told.append("first")
        after(env, 0, lambda: told.append("made"))
        instant.last(lambda: told.append("again"))

    after(env, 1, lambda: (instant.last(first), instant.last(lambda: told.append("second"))))
    env.run()
    assert told == ["first", "made", "second", "again"]
