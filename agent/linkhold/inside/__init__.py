"""What is read and written inside a network namespace, and the helper process that goes there.

setns(2) moves the thread that calls it, and a thread of the agent that were left in a container's
namespace by an error would answer for the wrong network from then on. So a short-lived process
goes: :mod:`linkhold.survey.inside` starts it, it visits every namespace it was told, and ends.
Standard library, :mod:`linkhold.rtnl` and :mod:`linkhold.model` only.
"""
