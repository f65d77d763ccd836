"""The relay: what the fleet's brokers say becomes alerts in Alertmanager.

It keeps a picture of every node, made from retained states, and posts what should be firing:
state first, events second. Whatever is lost or comes twice, the next state mends it. Events serve
for what nobody could be told at the time, and to see that none is missing.
"""
