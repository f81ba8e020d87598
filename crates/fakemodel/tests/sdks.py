"""Asks a fake model through the official SDKs and prints, as JSON, what they understood.

Usage: sdks.py URL. The names of the models say what the fake model answers.
"""

import json
import sys

import anthropic
import openai

URL = sys.argv[1]
ANSWERS = ["text", "tool", "thinking", "cached", "cut", "refused"]
FAULTS = [
    "wrong-key",
    "unknown-model",
    "context-too-long",
    "content-filter",
    "rate-limit",
    "quota",
    "overloaded",
    "server-error",
    "timeout",
]
QUESTION = [{"role": "user", "content": "Hello"}]


def failure(error):
    """What a program sees of an error: its class, its status, the server's words."""
    body = getattr(error, "body", None)
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    said = body.get("message") if isinstance(body, dict) else None
    return {
        "class": type(error).__name__,
        "status": getattr(error, "status_code", None),
        "said": said,
    }


def openai_whole(client, model):
    answer = client.chat.completions.create(model=model, messages=QUESTION)
    choice = answer.choices[0]
    calls = [[call.function.name, json.loads(call.function.arguments)] for call in choice.message.tool_calls or []]
    reasoning = getattr(choice.message, "reasoning_content", None)
    text = choice.message.content or choice.message.refusal
    return openai_answer(text, reasoning, calls, choice.finish_reason, answer.usage)


def openai_streamed(client, model):
    text, reasoning, calls, finish, usage = "", "", {}, None, None
    stream = client.chat.completions.create(
        model=model, messages=QUESTION, stream=True, stream_options={"include_usage": True}
    )
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or choice.delta.refusal or ""
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            finish = choice.finish_reason or finish
            for call in choice.delta.tool_calls or []:
                known = calls.setdefault(call.index, ["", ""])
                known[0] += call.function.name or ""
                known[1] += call.function.arguments or ""
    calls = [[name, json.loads(arguments)] for name, arguments in calls.values()]
    return openai_answer(text, reasoning, calls, finish, usage)


def openai_answer(text, reasoning, calls, finish, usage):
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    return {
        "text": text or "",
        "reasoning": reasoning or "",
        "calls": calls,
        "finish": finish,
        "tokens": [usage.prompt_tokens, usage.completion_tokens],
        "cached": (prompt.cached_tokens or 0) if prompt else 0,
        "thought": (completion.reasoning_tokens or 0) if completion else 0,
    }


def anthropic_whole(client, model):
    return anthropic_answer(client.messages.create(model=model, max_tokens=100, messages=QUESTION))


def anthropic_streamed(client, model):
    with client.messages.stream(model=model, max_tokens=100, messages=QUESTION) as stream:
        shown = "".join(stream.text_stream)
        answer = anthropic_answer(stream.get_final_message())
    assert shown == answer["text"], shown
    return answer


def anthropic_answer(message):
    blocks = message.content
    usage = message.usage
    return {
        "text": "".join(block.text for block in blocks if block.type == "text"),
        "reasoning": "".join(block.thinking for block in blocks if block.type == "thinking"),
        "signed": all(block.signature for block in blocks if block.type == "thinking"),
        "calls": [[block.name, block.input] for block in blocks if block.type == "tool_use"],
        "finish": message.stop_reason,
        "tokens": [usage.input_tokens, usage.output_tokens],
        "cached": [usage.cache_read_input_tokens, usage.cache_creation_input_tokens],
    }


def attempt(ask, client, model):
    try:
        return ask(client, model)
    except (openai.OpenAIError, anthropic.AnthropicError) as error:
        return failure(error)


def main():
    ways = {
        "openai": (openai.OpenAI(base_url=URL + "/v1", api_key="k", max_retries=0), openai_whole, openai_streamed),
        "anthropic": (
            anthropic.Anthropic(base_url=URL, api_key="k", max_retries=0),
            anthropic_whole,
            anthropic_streamed,
        ),
    }
    seen = {}
    for name, (client, whole, streamed) in ways.items():
        for model in ANSWERS + FAULTS:
            seen[f"{name} {model} whole"] = attempt(whole, client, model)
            seen[f"{name} {model} streamed"] = attempt(streamed, client, model)
        seen[f"{name} breaks streamed"] = attempt(streamed, client, "breaks")
        seen[f"{name} models"] = [model.id for model in client.models.list()]
    print(json.dumps(seen))


main()
