// Generated from docs/openapi.json by `npm run generate`. Do not edit.

export interface paths {
    "/chat/agent_message": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Say something as an agent
         * @description It is accepted whether anybody reads it or not. With the tag `signal` it wakes AdaptiveAgent.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["PostAgentMessage"];
                };
            };
            responses: {
                /** @description Said */
                201: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MessagePosted"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/chat/ask_user": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Ask the user and wait for the answer
         * @description One question is shown at a time, in the order they were asked. Whoever hangs up takes the
         *     question back.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["AskUser"];
                };
            };
            responses: {
                /** @description The user's answer */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["UserAnswer"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/chat/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Stop the answer that AdaptiveAgent works on
         * @description It stops for everybody. What was written stays as a message with the tag `partial`. A message
         *     with the tag `stopped` says who stopped it.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Stopped, or nothing to stop */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ChatCancelled"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/chat/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What was said in the Chat, oldest first
         * @description The Chat is shared by all users of the server and lives as long as the server runs. Its oldest
         *     messages leave past `chat.history_messages`.
         */
        get: {
            parameters: {
                query?: {
                    /** @description Messages after this one. */
                    after?: number;
                    /** @description At most so many. With `after` the oldest of them, without it the newest (100 unless set). */
                    limit?: number;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Messages */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["GlobalMessage"][];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/chat/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The Chat as it goes on: its newest messages, then every new one
         * @description `Last-Event-ID`, or `after`, continues after a message instead. While AdaptiveAgent writes, its
         *     answer comes in pieces, as events `delta` without an id. The whole answer follows as a message.
         */
        get: {
            parameters: {
                query?: {
                    /** @description Messages after this one. */
                    after?: number;
                    /** @description At most so many. With `after` the oldest of them, without it the newest (100 unless set). */
                    limit?: number;
                };
                header?: {
                    /** @description The last message that the reader has */
                    "Last-Event-ID"?: string | null;
                };
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Server-sent events */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "text/event-stream": components["schemas"]["GlobalChatFrame"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/chat/user_message": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Say something as the user
         * @description Where an agent waits for an answer, this is the answer; otherwise AdaptiveAgent takes it.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["PostUserMessage"];
                };
            };
            responses: {
                /** @description Said */
                201: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MessagePosted"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whether the server is well
         * @description The answer is 200 also where it is not: `status` and `checks` say so. A load balancer asks
         *     `/health/ready`.
         */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Healthy, degraded or unhealthy */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Health"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/health/live": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whether the process answers
         * @description It does so also while the database is away: starting it again would not help.
         */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description It answers */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Alive"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/health/ready": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether requests should be sent to this server */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Healthy or degraded */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Health"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/login": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Log in on the web page with the ticket of a login link
         * @description A ticket works once, for ten minutes. The cookie lasts thirty days.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["Login"];
                };
            };
            responses: {
                /** @description Logged in; the answer sets the cookie */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["LoggedIn"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** End the login of this browser */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description There is no login any more, whether there was one or not */
                204: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/approvals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Everything that waits for a decision of the user */
        get: {
            parameters: {
                query?: {
                    /**
                     * @description At most 1000; 100 where absent. A page of large things has fewer; the next one begins where
                     *     it ends.
                     */
                    limit?: number;
                    offset?: number;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Open approvals in the order they were asked */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ApprovalList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The sessions of the user, or those that a search finds */
        get: {
            parameters: {
                query?: {
                    /**
                     * @description At most 1000; 100 where absent. A page of large things has fewer; the next one begins where
                     *     it ends.
                     */
                    limit?: number;
                    offset?: number;
                    /** @description Sessions of this project only. */
                    project_id?: number;
                    /** @description Archived sessions instead of the others. */
                    archived?: boolean;
                    /**
                     * @description Only sessions that have all of these words in their title and messages, each at the beginning
                     *     of a word and in any case. At most 16 words. A page has at most 100 sessions then.
                     */
                    q?: string;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description A page of sessions, newest activity first */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ProjectSessionList"];
                    };
                };
            };
        };
        put?: never;
        /**
         * Make a session in a project
         * @description Without a body it is made in the default project.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: {
                content: {
                    "application/json": components["schemas"]["CreateProjectSession"];
                };
            };
            responses: {
                /** @description Created */
                201: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ProjectSession"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/sessions/{session_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One session with its newest messages */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The session */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ProjectSessionDetail"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        /** Delete a session with everything that was said in it */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Deleted */
                204: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        options?: never;
        head?: never;
        /** Change a session's title, model, agent, marks or what passes without a question */
        patch: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["ChangeProjectSession"];
                };
            };
            responses: {
                /** @description As it is now */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ProjectSession"];
                    };
                };
            };
        };
        trace?: never;
    };
    "/my/chat/sessions/{session_id}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The whole session as a file */
        get: {
            parameters: {
                query?: {
                    /** @description Without it, Markdown. */
                    format?: "markdown" | "json";
                };
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Every message, oldest first */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "text/markdown": string;
                        "application/json": components["schemas"]["ExportedSession"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/approvals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What waits for a decision in a session */
        get: {
            parameters: {
                query?: {
                    /**
                     * @description At most 1000; 100 where absent. A page of large things has fewer; the next one begins where
                     *     it ends.
                     */
                    limit?: number;
                    offset?: number;
                };
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Open approvals in the order they were asked */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ApprovalList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/approvals/{call_id}/decision": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Decide about a tool call, a plan or a budget */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The approval */
                    call_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["HitlDecision"];
                };
            };
            responses: {
                /** @description Decided; the turn goes on */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ProjectSessionAck"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/approvals/{call_id}/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Tell what a write would do to the file as it is now
         * @description For a pending approval of `write_file`, by the client that the session is bound to, or by any
         *     client while it is bound to none. It replaces the preview before. A decision that names another
         *     `base` is refused from then on. `certain_result`, with the first preview, ends the call: the
         *     write would be refused, or the file has this content already, so nobody has to decide.
         */
        put: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The approval */
                    call_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["SendPreview"];
                };
            };
            responses: {
                /** @description Shown */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ProjectSessionAck"];
                    };
                };
            };
        };
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/approvals/{call_id}/renew": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Give an approval its full time again
         * @description A plan that nobody decided about in time waits again, under its own id, until the session's next
         *     message.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The approval */
                    call_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The approval with its new time */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["OpenApproval"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/attachments/{digest}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A file of one of the session's messages */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The file's digest, from its message */
                    digest: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Its content. Whatever is not an image is served as plain text */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/octet-stream": string;
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The decisions of a session, each row chained to the one before */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description All rows, oldest first, and whether their chain is whole */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["AuditList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** End the current turn with everything it has open */
        post: {
            parameters: {
                query?: {
                    /** @description `drop` empties the queue as well; otherwise the next waiting message starts. */
                    queue?: "keep" | "drop";
                };
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Nothing of it runs any more */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ProjectSessionCancelled"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/compact": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Sum the history up now
         * @description Between two turns, whatever `context.compact_tokens` says. Prompts then show the summary instead
         *     of what was said before it; the messages stay. The answer comes as soon as the wish is durable,
         *     with `compacting: true`. The event `history_compacted` has the summary, or `compaction_failed`
         *     says why there is none. Cancelling the session stops it.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The summary is on its way, or was there already */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ProjectSession"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The events of a session, from any number on */
        get: {
            parameters: {
                query?: {
                    /**
                     * @description Events after this number; `Last-Event-ID` says the same and wins. A number past the log's
                     *     end is answered with `gap` and then the log from its start.
                     */
                    after?: number;
                    /** @description `false`: the stored events, then the end. */
                    follow?: boolean;
                };
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Server-sent events */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "text/event-stream": components["schemas"]["SessionEventFrame"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/fork": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Make a session with the history of this one
         * @description It holds everything up to and including the message, with its files, in the same project, for the
         *     same agent and model. An agent's message that calls tools brings their results along. Approvals,
         *     what was remembered, what waits, plans and what was spent stay in the original. The session's
         *     budget is the one that a person set there. What happens to the original later does not change it.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["ForkSession"];
                };
            };
            responses: {
                /** @description The new session, with `forked_from` */
                201: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ProjectSession"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/message": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a message: to the agent it names, else it is planned
         * @description With `Accept: text/event-stream` the answer is the message's events until its turn ends or
         *     suspends. Otherwise a direct call waits for its answer, and a planned one is answered at once
         *     with its `workflow_id`.
         *
         *     With `delivery: "steer"`, while a turn runs, the agents at work are told the message after their
         *     next tool results, in a plan every task that works or starts later. It is answered at once with
         *     the status `steering`; its events are those of the running turn. If that turn ends first, the
         *     message waits in the queue. Without a turn, and where it answers a question, nothing is
         *     different.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["SendMessage"];
                };
            };
            responses: {
                /** @description A direct call's answer, or the events of the message */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["DirectAnswer"];
                        "text/event-stream": components["schemas"]["SessionEventFrame"];
                    };
                };
                /** @description Durable; it is planned, steers, or waits for an earlier message */
                202: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MessageAccepted"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What was said, oldest first */
        get: {
            parameters: {
                query?: {
                    /**
                     * @description At most 1000; 100 where absent. A page of large things has fewer; the next one begins where
                     *     it ends.
                     */
                    limit?: number;
                    offset?: number;
                    /** @description Messages of this role only. */
                    role?: components["schemas"]["Role"];
                };
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description A page of messages */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MessageList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/plans": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The plans of a session, oldest first */
        get: {
            parameters: {
                query?: {
                    /**
                     * @description At most 1000; 100 where absent. A page of large things has fewer; the next one begins where
                     *     it ends.
                     */
                    limit?: number;
                    offset?: number;
                };
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description A page of plans */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["PlanList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/plans/{plan_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One plan with the state of its tasks */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The plan */
                    plan_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The plan */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Plan"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/plans/{plan_id}/decision": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Approve, reject or edit a plan that waits
         * @description An edit replaces the tasks and approves in the same act; one that cannot be run leaves the plan
         *     waiting.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The plan */
                    plan_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["PlanDecision"];
                };
            };
            responses: {
                /** @description The plan as it is now */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Plan"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/plans/{plan_id}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Run the tasks of a plan again that failed or were skipped */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The plan */
                    plan_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The plan, running again */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Plan"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/plans/{plan_id}/tasks/{task_id}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The thread of one task, oldest first */
        get: {
            parameters: {
                query?: {
                    /**
                     * @description At most 1000; 100 where absent. A page of large things has fewer; the next one begins where
                     *     it ends.
                     */
                    limit?: number;
                    offset?: number;
                };
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The plan */
                    plan_id: string;
                    /** @description The task */
                    task_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description A page of messages */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MessageList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/questions/{call_id}/answer": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Answer a question
         * @description The answer is a user's message of the session, so the reply is that of a message: its events
         *     with `Accept: text/event-stream`. Otherwise a direct call waits for its end as before, and a
         *     plan is answered at once.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The question */
                    call_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["AnswerQuestion"];
                };
            };
            responses: {
                /** @description The end of the direct call that asked, or the events of the answer */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["DirectAnswer"];
                        "text/event-stream": components["schemas"]["SessionEventFrame"];
                    };
                };
                /** @description Answered and durable; the plan goes on */
                202: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MessageAccepted"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/queue/{message_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Take back a message that waits
         * @description `message_dequeued` with the reason `taken_back` tells of it.
         */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The message */
                    message_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description It is not told to anybody */
                204: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        options?: never;
        head?: never;
        /**
         * Let a message that waits steer the turn that runs, or wait for its end
         * @description `message_queued` says how the message waits now. One that steers instead of waiting is first taken
         *     out of the queue: `message_dequeued` with the reason `steers`.
         */
        patch: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The message */
                    message_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["ChangeDelivery"];
                };
            };
            responses: {
                /** @description It waits so */
                204: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        trace?: never;
    };
    "/my/chat/{session_id}/remembered": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What was approved with `remember` in this session, oldest first
         * @description Such calls pass without a question until the session ends or somebody takes it back.
         */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description At most 100 */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["RememberedList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/remembered/{remembered_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Take back what was remembered
         * @description The next such call asks again. One that was let through already goes on. The event
         *     `remembered_revoked` says who did it.
         */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The id from the list */
                    remembered_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Such calls ask again */
                204: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Run the last turn again, if it failed or was stopped
         * @description The same message is sent once more, to the same agent, with `retries` in it. A plan runs its
         *     tasks that did not end well. The answer is that of a message. A repeated request gets the events
         *     of the turn that runs already.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["RetryTurn"];
                };
            };
            responses: {
                /** @description A direct call's answer, or the events of the turn */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["DirectAnswer"];
                        "text/event-stream": components["schemas"]["SessionEventFrame"];
                    };
                };
                /** @description Durable; it is planned, or its tasks run again */
                202: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MessageAccepted"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/rewind": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Take back what was done since a message, or give it back
         * @description With `to_message_id` and `scope`, everything from that message on is taken back: files by the
         *     session's client, for which this request is the approval, and messages out of what models, memory
         *     and search see. With `undo`, a rewind is taken back itself. The event `rewound` says the same as
         *     the answer.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["RewindSession"];
                };
            };
            responses: {
                /** @description How it ended. `error` says why files were not taken back */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Rewound"];
                    };
                };
                /** @description The client is not done after 60 seconds; the event `rewound` tells of the end */
                202: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["RewindAccepted"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/tool_calls/{call_id}/ask_again": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Give a claimed write back, so that a person sees it again
         * @description The client wrote nothing: the file is not the one that was approved, or nobody was shown it. The
         *     call waits for a decision again, under its own id.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The tool call */
                    call_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["AskAgain"];
                };
            };
            responses: {
                /** @description It waits for a decision */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ProjectSessionAck"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/tool_calls/{call_id}/claim": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Take a tool call, or keep it */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The tool call */
                    call_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["ClaimCall"];
                };
            };
            responses: {
                /** @description It is this client's until the lease is over */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["CallClaimed"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/tool_calls/{call_id}/elicit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Ask the person what the MCP server of a call wants to know
         * @description The answer is a message that `answers` the returned id. A call has one open question: another
         *     one takes its place.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The tool call */
                    call_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["ElicitAnswer"];
                };
            };
            responses: {
                /** @description Asked */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ElicitationAsked"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/tool_calls/{call_id}/progress": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Tell how far a tool call is
         * @description It is shown to readers and not stored.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The tool call */
                    call_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["ReportProgress"];
                };
            };
            responses: {
                /** @description Shown */
                204: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/chat/{session_id}/tool_calls/{call_id}/result": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Send what a tool call gave */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The session */
                    session_id: string;
                    /** @description The tool call */
                    call_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["CallResult"];
                };
            };
            responses: {
                /** @description Accepted; the turn goes on */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ResultAck"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Everything that happens in the user's sessions
         * @description Each event is one of its session's log, with that log's `seq`. Events of one session come in
         *     order, without a hole. Without `Last-Event-ID` or `after`, the stream begins now. Its ids are
         *     opaque: a reader comes back with the last one, to any server, and gets what it missed. The first
         *     frame has an id and no data.
         *
         *     A reader that falls too far behind is cut. Events can come twice after a reader was away while
         *     more than 64 sessions were active; session and `seq` tell. A `gap` names events that are not
         *     shown, because they were pruned or because more than 10,000 were missed.
         */
        get: {
            parameters: {
                query?: {
                    /** @description Events after the one with this id; `Last-Event-ID` says the same and wins. */
                    after?: string;
                };
                header?: {
                    /** @description The id of the last event that the reader has */
                    "Last-Event-ID"?: string | null;
                };
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Server-sent events */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "text/event-stream": components["schemas"]["UserEventFrame"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The models to choose from
         * @description A provider that cannot list its models is named with the reason. A model that is not listed can
         *     be used as well.
         */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description What the connected providers offer */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ModelList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/models/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Try a model
         * @description Makes one call for at most 16 tokens, to this model and no other, without a second attempt. A
         *     failed call is no error of the request: `ok` is false, and `details` says why. At most 10 in a
         *     minute.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["TryModel"];
                };
            };
            responses: {
                /** @description Whether the model answers */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ModelTried"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The projects of the user
         * @description A user who has none gets the default project with its starter pack of four agents.
         */
        get: {
            parameters: {
                query?: {
                    /**
                     * @description At most 1000; 100 where absent. A page of large things has fewer; the next one begins where
                     *     it ends.
                     */
                    limit?: number;
                    offset?: number;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description A page of projects, oldest first */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ProjectList"];
                    };
                };
            };
        };
        put?: never;
        /** Make a project with its starter pack of four agents */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["CreateProject"];
                };
            };
            responses: {
                /** @description Created */
                201: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Project"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One project */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The project */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Project"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        /**
         * Delete a project with its agents and sessions
         * @description What works in it is cancelled.
         */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Deleted */
                204: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        options?: never;
        head?: never;
        /** Change a project */
        patch: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["ChangeProject"];
                };
            };
            responses: {
                /** @description As it is now */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Project"];
                    };
                };
            };
        };
        trace?: never;
    };
    "/my/projects/{project_id}/agents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The agents of a project */
        get: {
            parameters: {
                query?: {
                    /**
                     * @description At most 1000; 100 where absent. A page of large things has fewer; the next one begins where
                     *     it ends.
                     */
                    limit?: number;
                    offset?: number;
                };
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description A page of agents, oldest first */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ProjectAgentList"];
                    };
                };
            };
        };
        put?: never;
        /** Add an agent to a project */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["CreateAgent"];
                };
            };
            responses: {
                /** @description Created */
                201: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["SavedAgent"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/agents/{agent_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One agent */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The agent's id */
                    agent_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The agent */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ProjectAgent"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        /**
         * Delete an agent
         * @description One that works is not deleted unless `force` is given, which cancels its tasks.
         */
        delete: {
            parameters: {
                query?: {
                    /** @description Whether tasks of the agent are cancelled. */
                    force?: boolean;
                };
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The agent's id */
                    agent_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Deleted */
                204: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        options?: never;
        head?: never;
        /** Change an agent */
        patch: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The agent's id */
                    agent_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["ChangeAgent"];
                };
            };
            responses: {
                /** @description As it is now */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["SavedAgent"];
                    };
                };
            };
        };
        trace?: never;
    };
    "/my/projects/{project_id}/agents/{agent_id}/context": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the agent remembers, newest first */
        get: {
            parameters: {
                query?: {
                    /**
                     * @description At most 1000; 100 where absent. A page of large things has fewer; the next one begins where
                     *     it ends.
                     */
                    limit?: number;
                    offset?: number;
                };
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The agent's id */
                    agent_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description A page of interactions */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ContextList"];
                    };
                };
            };
        };
        put?: never;
        /** Let the agent remember something */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The agent's id */
                    agent_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["AddContext"];
                };
            };
            responses: {
                /** @description Stored; found as soon as it is indexed */
                201: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ContextAdded"];
                    };
                };
            };
        };
        /** Let the agent forget everything */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The agent's id */
                    agent_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Nothing is remembered any more */
                204: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/agents/{agent_id}/context/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Find what the agent remembers about something */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The agent's id */
                    agent_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["SearchContext"];
                };
            };
            responses: {
                /** @description The best interactions, best first */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ContextResults"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/agents/{agent_id}/context/{context_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Let the agent forget one thing */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The agent's id */
                    agent_id: string;
                    /** @description The id from the answer to an addition or a search */
                    context_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description It is not remembered any more */
                204: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/agents/{agent_id}/deregister": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Take the agent out of service
         * @description It takes no new tasks, and messages to it get 503 until it is registered again. What it has
         *     begun ends as usual, tasks that wait included; the answer comes when those that it works on now
         *     are finished, after 30 s at the latest.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The agent's id */
                    agent_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Out of service */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["AgentStatusInfo"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/agents/{agent_id}/invalidate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Read the agent anew at its next use, on every server */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The agent's id */
                    agent_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description How it stands */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["AgentStatusInfo"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/agents/{agent_id}/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the agent did since its worker space was made */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The agent's id */
                    agent_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Its numbers on this server */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["AgentMetrics"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/agents/{agent_id}/register": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Let the agent take tasks */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The agent's id */
                    agent_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description In service */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["AgentStatusInfo"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/agents/{agent_id}/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the agent is idle, works, is at its limit, or fails */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The agent's id */
                    agent_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description How it stands */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["AgentStatusInfo"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/clients": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The clients of a project
         * @description Clients that were silent for a minute are also listed, with `present: false`.
         */
        get: {
            parameters: {
                query?: {
                    /**
                     * @description At most 1000; 100 where absent. A page of large things has fewer; the next one begins where
                     *     it ends.
                     */
                    limit?: number;
                    offset?: number;
                };
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description A page of clients, by their ids */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ClientList"];
                    };
                };
            };
        };
        put?: never;
        /**
         * Attach a client, or say that it is still there
         * @description A client that sends nothing for a minute counts as gone. Attaching again, claiming a call and
         *     sending a result keep it attached.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["AttachClient"];
                };
            };
            responses: {
                /** @description Attached */
                201: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["AttachedClient"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/clients/{client_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Let a client go: its sessions are free for another one */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The client */
                    client_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Gone; calls it was running have an unknown outcome */
                204: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/clients/{client_id}/instructions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What the workspace of a client brings
         * @description Instructions and skills that models are told, with their digests, and contents that wait for a
         *     person to trust them.
         */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The client */
                    client_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description As the client reported it */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ClientInstructions"];
                    };
                };
            };
        };
        /**
         * Say what the workspace of a client brings
         * @description For tool runners. It replaces what the client reported before, and counts while the client is
         *     attached. The answer names the texts that the server does not have.
         */
        put: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The client */
                    client_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["InstructionsReport"];
                };
            };
            responses: {
                /** @description Known; these texts are missing */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MissingTexts"];
                    };
                };
            };
        };
        /**
         * Send texts that the server does not have
         * @description For tool runners. Only texts whose digests the client reported are taken.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The client */
                    client_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["SendTexts"];
                };
            };
            responses: {
                /** @description Taken; these are still missing */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MissingTexts"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/clients/{client_id}/mcp": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Say which MCP servers a client runs
         * @description For tool runners. It replaces what the client reported before, and counts while the client is
         *     attached.
         */
        put: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The client */
                    client_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["McpReport"];
                };
            };
            responses: {
                /** @description Known */
                204: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/clients/{client_id}/trust": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What people trusted and the client has not taken up yet
         * @description For tool runners. A decision leaves the list when the content waits no longer.
         */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The client */
                    client_id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Oldest first */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["TrustDecisions"];
                    };
                };
            };
        };
        put?: never;
        /**
         * Trust a content that waits at a client
         * @description The client takes the decision up within seconds and stores it itself, if the content still has
         *     this digest. A decision is lost if the client goes away before.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The client */
                    client_id: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["TrustContent"];
                };
            };
            responses: {
                /** @description The client will be told */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["WaitingContent"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/mcp": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The MCP servers of a project
         * @description First the project's own, by name, then those that attached tool runners run.
         */
        get: {
            parameters: {
                query?: {
                    /**
                     * @description At most 1000; 100 where absent. A page of large things has fewer; the next one begins where
                     *     it ends.
                     */
                    limit?: number;
                    offset?: number;
                };
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description A page of servers */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["McpServerList"];
                    };
                };
            };
        };
        put?: never;
        /**
         * Add an MCP server that CodeLab's server calls
         * @description It is saved even if it cannot be reached; `error` says what is wrong. The values of headers are
         *     stored encrypted and never shown.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["CreateMcpServer"];
                };
            };
            responses: {
                /** @description Added; it is being connected */
                201: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["McpServer"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/mcp/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * One MCP server
         * @description The project's own server of this name, else the one of the newest tool runner that has it.
         */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The name of the MCP server */
                    name: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The server */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["McpServer"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        /**
         * Delete an MCP server
         * @description Its tokens, the accepted definitions of its tools and what was decided about them are forgotten.
         *     Of a server that a tool runner runs, only what was accepted and decided is forgotten.
         */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The name of the MCP server */
                    name: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Deleted */
                204: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        options?: never;
        head?: never;
        /**
         * Change the address or the headers of an MCP server
         * @description Another address ends an authorization. If it is of another host, the headers must be sent again.
         */
        patch: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The name of the MCP server */
                    name: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["ChangeMcpServer"];
                };
            };
            responses: {
                /** @description As it is now */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["McpServer"];
                    };
                };
            };
        };
        trace?: never;
    };
    "/my/projects/{project_id}/mcp/{name}/accept": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Accept the present definitions of tools
         * @description A tool whose definition changed is off until somebody accepts the new one.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The name of the MCP server */
                    name: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["AcceptMcpTools"];
                };
            };
            responses: {
                /** @description The server as it is now */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["McpServer"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/mcp/{name}/authorize": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Begin to authorize CodeLab at an MCP server
         * @description A person agrees at the address in the answer, within ten minutes.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The name of the MCP server */
                    name: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Where a person agrees */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["McpAuthorization"];
                    };
                };
            };
        };
        /** Forget the tokens of an MCP server */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The name of the MCP server */
                    name: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Forgotten, if there were any */
                204: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/mcp/{name}/permission": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Decide about a tool for all sessions of the project */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The name of the MCP server */
                    name: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["PermitMcpTool"];
                };
            };
            responses: {
                /** @description The server as it is now */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["McpServer"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/mcp/{name}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Connect to an MCP server now
         * @description Waits for the outcome. A server that a tool runner runs is shown as it was reported.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                    /** @description The name of the MCP server */
                    name: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description `status` and `error` say what came of it */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["McpServer"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/plans": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The plans of all sessions of a project, newest first */
        get: {
            parameters: {
                query?: {
                    /**
                     * @description At most 1000; 100 where absent. A page of large things has fewer; the next one begins where
                     *     it ends.
                     */
                    limit?: number;
                    offset?: number;
                };
                header?: never;
                path: {
                    /** @description The project's number */
                    project_id: number;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description A page of plans */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ProjectPlanList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/worker-space": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Numbers of the worker space
         * @description A space that was cleaned up is not rebuilt by reading: it is shown as not active.
         */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number; an admin may name anybody's */
                    project_id: number;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Its numbers on this server */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["SpaceMetrics"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/worker-space/cache": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Forget what is cached of the project's agents, on every server
         * @description The agents stay in service and are read from the database at their next use.
         */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number; an admin may name anybody's */
                    project_id: number;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Forgotten */
                204: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/worker-space/cleanup": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Let the worker space's resources go
         * @description Active tasks are finished first, within 30 s, and cancelled then. The next use builds the space
         *     again. Files in the user's workspace are never touched.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number; an admin may name anybody's */
                    project_id: number;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description As it is now */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["SpaceMetrics"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/worker-space/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the worker space is well */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number; an admin may name anybody's */
                    project_id: number;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Healthy, degraded or unhealthy, with details */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["SpaceHealth"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/projects/{project_id}/worker-space/reset": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Stop every task at once and build the worker space anew
         * @description Files in the user's workspace are never touched.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description The project's number; an admin may name anybody's */
                    project_id: number;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description As it is now */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["SpaceMetrics"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the user's model calls used */
        get: {
            parameters: {
                query?: {
                    /** @description Sessions of this project only. */
                    project_id?: number;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Sums by project, session and agent */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["UsageReport"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/my/waiting": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Everything that waits for the user: approvals of tool calls, plans and budgets, and questions
         * @description `/my/events` tells of each with `waiting_added`, and with `waiting_removed` when it is over.
         */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description At most 1,000, oldest first */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["WaitingList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description Body of `POST …/mcp/{name}/accept`: the present definitions count from now on. */
        AcceptMcpTools: {
            /** @description Absent: all tools of the server that changed. */
            tool?: string | null;
            digest?: components["schemas"]["Digest"] | null;
        };
        /** @enum {string} */
        AcceptedStatus: "accepted" | "queued" | "answered" | "steering";
        /** @enum {string} */
        AckStatus: "reset" | "cancelled" | "idle" | "restored";
        /** @description Body of `POST …/agents/{agent_id}/context`: something the agent should remember. */
        AddContext: {
            text: string;
            /** @description `note` if absent. */
            type?: string | null;
            success?: boolean | null;
            task_id?: components["schemas"]["TaskId"] | null;
            metadata?: Record<string, unknown> | null;
        };
        AgentHistory: {
            session_id: components["schemas"]["SessionId"];
            switches: components["schemas"]["SwitchEntry"][];
        };
        /** @description One agent of a project; its name may exist in other projects as well. */
        AgentId: string;
        AgentInfo: {
            agent_type: components["schemas"]["AgentName"];
            description: string;
            allowed_tools: components["schemas"]["AllowedTool"][];
            file_restrictions?: string[] | null;
        };
        AgentList: {
            agents: components["schemas"]["AgentInfo"][];
        };
        /** @description What an agent may say about its message. */
        AgentMeta: {
            reply_to?: components["schemas"]["GlobalMessageId"] | null;
            /** @description `signal` wakes AdaptiveAgent. */
            tags?: string[] | null;
        };
        /** @description What an agent did on this server since its worker space was made. */
        AgentMetrics: {
            /**
             * Format: int64
             * @description Failures too.
             */
            tasks_processed: number;
            /** Format: int64 */
            tasks_failed: number;
            /**
             * Format: double
             * @description Seconds per processed task.
             */
            avg_processing_time: number;
            last_activity?: components["schemas"]["Timestamp"] | null;
            /**
             * Format: double
             * @description Failed of processed, 0 to 1.
             */
            error_rate: number;
            /** Format: int64 */
            active: number;
            /** Format: int64 */
            queue_length: number;
            /** Format: int64 */
            concurrency_limit: number;
        };
        /** @description The name of an agent definition. */
        AgentName: string;
        AgentQuestion: components["schemas"]["TaskOrigin"] & {
            call_id: components["schemas"]["CallId"];
            question: string;
            server?: components["schemas"]["McpServerName"] | null;
            /**
             * @description The fields of the answer as JSON Schema, where a server asks. One field is answered plainly,
             *     several with a JSON object. `/decline` gives no answer.
             */
            requested_schema?: Record<string, unknown> | null;
            options?: string[];
            agent: components["schemas"]["AgentName"];
        };
        /** @enum {string} */
        AgentStatus: "idle" | "processing" | "busy" | "error";
        AgentStatusChanged: components["schemas"]["TaskOrigin"] & {
            agent: components["schemas"]["AgentName"];
            status: components["schemas"]["AgentStatus"];
        };
        AgentStatusInfo: {
            agent: components["schemas"]["AgentName"];
            status: components["schemas"]["AgentStatus"];
            /** @description Whether it accepts tasks; a person can take an agent out of service. */
            registered: boolean;
        };
        /**
         * @description Body of `POST /agent/message/stream`. What each `message_type` needs is checked after parsing,
         *     so that a missing field has its own code.
         */
        AgentStreamRequest: {
            session_id: components["schemas"]["SessionId"];
            message_type?: components["schemas"]["MessageType"] | null;
            message?: string | null;
            agent_type?: string | null;
            tool_call_id?: components["schemas"]["CallId"] | null;
            /** @description A text or any JSON. */
            tool_result?: unknown;
            hitl_decision?: components["schemas"]["HitlDecision"] | null;
            client_message_id?: components["schemas"]["ClientMessageId"] | null;
            context?: components["schemas"]["CallerContext"] | null;
        };
        AgentUsage: {
            project_id: components["schemas"]["ProjectId"];
            agent: components["schemas"]["AgentName"];
            usage: components["schemas"]["UsageTotal"];
        };
        /** @description The process answers; nothing more is said. */
        Alive: {
            /** @enum {string} */
            status: "alive";
        };
        /** @description A built-in tool, `mcp__*`, `mcp__SERVER__*`, or the name of an MCP server's tool. */
        AllowedTool: string;
        AnswerQuestion: {
            answer: string;
        };
        /** @description A durable question to a person. */
        ApprovalInfo: {
            call_id: components["schemas"]["CallId"];
            kind: components["schemas"]["ApprovalKind"];
            tool_name: string;
            arguments: Record<string, unknown>;
            digest: components["schemas"]["Digest"];
            mcp?: components["schemas"]["McpCall"] | null;
            parts?: components["schemas"]["CommandPart"][];
            reason: string;
            created_at: components["schemas"]["Timestamp"];
            expires_at?: components["schemas"]["Timestamp"] | null;
            /** Format: int64 */
            timeout_seconds: number;
            preview?: components["schemas"]["FilePreview"] | null;
        };
        /**
         * @description What an approval is about.
         * @enum {string}
         */
        ApprovalKind: "tool" | "plan" | "budget";
        ApprovalList: {
            approvals: components["schemas"]["OpenApproval"][];
            /** Format: int64 */
            total: number;
            /** Format: int64 */
            limit: number;
            /** Format: int64 */
            offset: number;
        };
        /**
         * @description How an approval ended, as events tell it.
         * @enum {string}
         */
        ApprovalOutcome: "approve" | "edit" | "reject" | "expired" | "cancelled";
        /**
         * @description What a call that waits for a decision would write, as the file is now. It replaces the preview
         *     before.
         */
        ApprovalPreview: components["schemas"]["FilePreview"] & components["schemas"]["TaskOrigin"] & {
            call_id: components["schemas"]["CallId"];
        };
        ApprovalRequest: components["schemas"]["ApprovalInfo"] & components["schemas"]["TaskOrigin"] & {
            agent?: components["schemas"]["AgentName"] | null;
        };
        ApprovalResolved: {
            call_id: components["schemas"]["CallId"];
            /** @description Never `plan`: a plan has an event of its own. */
            kind: components["schemas"]["ApprovalKind"];
            decision: components["schemas"]["ApprovalOutcome"];
            decided_by: string;
            reason?: string | null;
            /** @description The arguments as they will run, after an edit. */
            modified_args?: Record<string, unknown> | null;
        };
        ApproveChanged: {
            approve: components["schemas"]["ApproveMode"];
        };
        /**
         * @description What passes without a question in a session.
         * @enum {string}
         */
        ApproveMode: "ask" | "edits";
        /** @description Body of `POST /my/chat/{session_id}/tool_calls/{call_id}/ask_again`. */
        AskAgain: {
            /** @description The client that claimed the call. */
            client_id: components["schemas"]["ClientId"];
            /** @description Why a person must see the call (again). */
            reason: string;
            preview: components["schemas"]["FilePreview"];
        };
        /** @description Body of `POST /chat/ask_user`. */
        AskUser: {
            author: string;
            question: string;
            /**
             * Format: int64
             * @description 300 if absent. The time starts with the request, even if other questions are asked first.
             */
            timeout_seconds?: number | null;
        };
        AssistantDelta: {
            content: string;
            agent: components["schemas"]["AgentName"];
            message_id: components["schemas"]["MessageId"];
            /**
             * Format: int32
             * @description A higher attempt replaces what was shown for this message.
             */
            attempt: number;
            /**
             * Format: int64
             * @description Where `content` starts, in bytes of the message's UTF-8 text.
             */
            offset: number;
        };
        AssistantMessage: {
            content: string;
            agent: components["schemas"]["AgentName"];
            message_id: components["schemas"]["MessageId"];
            timestamp: components["schemas"]["Timestamp"];
            usage?: components["schemas"]["Usage"] | null;
            warnings?: string[];
        };
        /** @description Body of `POST /my/projects/{project_id}/clients`. */
        AttachClient: {
            client_id: components["schemas"]["ClientId"];
            /** @description The folder it works in, as people should see it. */
            workspace?: string;
            sandbox: components["schemas"]["SandboxKind"];
            mcp?: components["schemas"]["Digest"] | null;
            instructions?: components["schemas"]["Digest"] | null;
        };
        /** @description A program that runs tools in a user's workspace. */
        AttachedClient: {
            client_id: components["schemas"]["ClientId"];
            workspace: string;
            sandbox: components["schemas"]["SandboxKind"];
            attached_at: components["schemas"]["Timestamp"];
            /** @description It sent something within the last minute. */
            present: boolean;
            /**
             * @description The server has another report about MCP servers than the client says, or none. The client
             *     sends it again.
             */
            mcp_report_wanted?: boolean;
            /** @description The same for the report about what its workspace brings. */
            instructions_report_wanted?: boolean;
            /**
             * Format: int64
             * @description How many contents of its workspace wait for a person to trust them.
             */
            waiting_contents?: number;
        };
        /** @description A file of a message. Its content is read by its digest. */
        Attachment: {
            name: string;
            media_type: string;
            /**
             * Format: int64
             * @description In bytes.
             */
            size: number;
            /** @description SHA-256 of the content, in hex. */
            digest: components["schemas"]["Digest"];
        };
        /**
         * @description A decision as the audit log spells it.
         * @enum {string}
         */
        AuditDecision: "APPROVE" | "EDIT" | "REJECT";
        /** @description One decision. A purge blanks the arguments and keeps the row. */
        AuditEntry: {
            call_id: components["schemas"]["CallId"];
            tool_name: string;
            original_args?: Record<string, unknown> | null;
            modified_args?: Record<string, unknown> | null;
            decision: components["schemas"]["AuditDecision"];
            decided_by: string;
            reason?: string | null;
            timestamp: components["schemas"]["Timestamp"];
            hash: components["schemas"]["Digest"];
        };
        AuditList: {
            session_id: components["schemas"]["SessionId"];
            audit: components["schemas"]["AuditEntry"][];
            /** @description Whether the chain of hashes is whole. */
            verified: boolean;
        };
        /** @description Seconds from a message to the end of its turn. */
        AverageDuration: {
            /** Format: double */
            direct: number;
            /** Format: double */
            orchestrated: number;
        };
        /**
         * @description A kind of content that a workspace can bring.
         * @enum {string}
         */
        BroughtKind: "mcp_servers" | "instructions" | "skill" | "command";
        /** @description One file of a skill's folder. */
        BroughtPart: {
            /** @description Within the folder. */
            path: string;
            /** Format: int64 */
            bytes: number;
        };
        /** @description A trusted skill of a workspace. */
        BroughtSkill: {
            name: string;
            description: string;
            /** @description Within the workspace. The files of the skill are here. */
            folder: string;
            /** @description Covers every file of the folder. */
            digest: components["schemas"]["Digest"];
            /** @description SHA-256 of its `SKILL.md`. */
            text: components["schemas"]["Digest"];
            /**
             * Format: int64
             * @description Of its `SKILL.md`.
             */
            bytes: number;
        };
        /** @description A trusted file of a workspace. */
        BroughtText: {
            /** @description Within the workspace. */
            path: string;
            /** @description SHA-256 of the content. */
            digest: components["schemas"]["Digest"];
            /** Format: int64 */
            bytes: number;
        };
        CallClaimed: {
            claimed: boolean;
            /**
             * Format: int64
             * @description Claim again before the lease ends to keep the call.
             */
            lease_seconds: number;
        };
        /** @description One tool call, approval or question; unique within its session. */
        CallId: string;
        /** @enum {string} */
        CallOutcome: "completed" | "rejected" | "cancelled" | "expired" | "unknown";
        /** @description Body of a tool call's result: one of `result` and `error`. */
        CallResult: {
            client_id: components["schemas"]["ClientId"];
            result?: unknown;
            error?: string | null;
        };
        /** @description Who is behind a runtime call, for prompts and the audit log. */
        CallerContext: {
            user_id?: components["schemas"]["UserId"] | null;
            timezone?: string | null;
            household_id?: string | null;
            locale?: string | null;
        };
        /**
         * @description What is absent stays; `null` clears a temperature, a token limit, the fallback models or the file
         *     restrictions. A model that is `null` follows the server's default again.
         */
        ChangeAgent: {
            /** @description The name cannot be changed; only the present one is accepted. */
            name?: string;
            role?: string;
            description?: string;
            model?: string | null;
            fallback_models?: string[] | null;
            /** Format: double */
            temperature?: number | null;
            /** Format: int32 */
            max_tokens?: number | null;
            system_prompt?: string;
            allowed_tools?: components["schemas"]["AllowedTool"][];
            file_restrictions?: string[] | null;
            /** Format: int32 */
            concurrency_limit?: number;
        };
        /** @description Body of `PATCH /my/chat/{session_id}/queue/{message_id}`. */
        ChangeDelivery: {
            delivery: components["schemas"]["Delivery"];
        };
        /** @description Body of `PATCH /my/projects/{project_id}/mcp/{name}`. What is absent stays. */
        ChangeMcpServer: {
            url?: string;
            /** @description Replaces all headers; `null` removes them. */
            headers?: {
                [key: string]: string;
            } | null;
        };
        /** @description What is absent stays; `null` clears a description or a budget. */
        ChangeProject: {
            name?: string;
            description?: string | null;
            /** Format: double */
            budget_usd?: number | null;
            /** Format: int64 */
            budget_tokens?: number | null;
        };
        /** @description What is absent stays. At least one field is given. */
        ChangeProjectSession: {
            title?: string;
            /** @description The model for the agents of this session; `null` = each agent's own. */
            model?: string | null;
            /**
             * @description The agent that messages without `target_agent` go to, by id or name; `null` = they are
             *     planned.
             */
            agent?: string | null;
            pinned?: boolean;
            /** @description Lists leave archived sessions out. */
            archived?: boolean;
            /** @description What passes without a question. */
            approve?: components["schemas"]["ApproveMode"];
        };
        /** @description Answer of `POST /chat/cancel`. */
        ChatCancelled: {
            /** @description Whether there was an answer to stop. */
            cancelled: boolean;
        };
        /** @description One event of a session's log: `{"type", "data", "timestamp"}`. */
        Chunk: components["schemas"]["ChunkBody"] & {
            timestamp: components["schemas"]["Timestamp"];
        };
        ChunkBody: {
            data: components["schemas"]["AssistantMessage"];
            /** @enum {string} */
            type: "assistant_message";
        } | {
            /** @description Tokens as they arrive; ephemeral, never stored, without an id. */
            data: components["schemas"]["AssistantDelta"];
            /** @enum {string} */
            type: "assistant_delta";
        } | {
            /** @description What the model thinks, as it arrives; ephemeral as well. It is no part of the answer's text. */
            data: components["schemas"]["AssistantDelta"];
            /** @enum {string} */
            type: "reasoning_delta";
        } | {
            data: components["schemas"]["ToolCallChunk"];
            /** @enum {string} */
            type: "tool_call";
        } | {
            data: components["schemas"]["ToolResultChunk"];
            /** @enum {string} */
            type: "tool_result";
        } | {
            data: components["schemas"]["SwitchAgent"];
            /** @enum {string} */
            type: "switch_agent";
        } | {
            data: components["schemas"]["Question"];
            /** @enum {string} */
            type: "question";
        } | {
            data: components["schemas"]["ErrorData"];
            /** @enum {string} */
            type: "error";
        } | {
            data: components["schemas"]["Completion"];
            /** @enum {string} */
            type: "completion";
        } | {
            data: components["schemas"]["ModelFallback"];
            /** @enum {string} */
            type: "model_fallback";
        } | {
            data: components["schemas"]["ModelWaiting"];
            /** @enum {string} */
            type: "model_waiting";
        } | {
            /** @description These event numbers were pruned and can no longer be read; never stored itself. */
            data: components["schemas"]["Gap"];
            /** @enum {string} */
            type: "gap";
        };
        ClaimCall: {
            client_id: components["schemas"]["ClientId"];
            digest?: components["schemas"]["Digest"] | null;
            base?: components["schemas"]["FileBase"] | null;
        };
        /** @description A program that runs tools in a user's workspace. */
        ClientId: string;
        /** @description What the workspace of a client brings, for people. */
        ClientInstructions: {
            client_id: components["schemas"]["ClientId"];
            workspace: string;
            /**
             * @description Told to models: the one of the workspace's own folder always, another one once a file
             *     beneath its folder was touched.
             */
            files: components["schemas"]["BroughtText"][];
            skills: components["schemas"]["BroughtSkill"][];
            commands: components["schemas"]["BroughtText"][];
            /** @description Told to nobody before a person trusts it. */
            waiting: components["schemas"]["WaitingContent"][];
            notices: string[];
        };
        ClientList: {
            clients: components["schemas"]["AttachedClient"][];
            /** Format: int64 */
            total: number;
            /** Format: int64 */
            limit: number;
            /** Format: int64 */
            offset: number;
        };
        /** @description The caller's own name for a message it sends; a repeat never starts a second turn. */
        ClientMessageId: string;
        /** @description What a server knows of the installation that it is part of. */
        ClusterHealth: {
            /** @description This server. */
            server: string;
            /** @description All that can be given work. */
            servers: components["schemas"]["ClusterServer"][];
            /** @description What this server owns. */
            owned: components["schemas"]["ClusterOwned"];
        };
        ClusterOwned: {
            projects: number;
            /** @description Sessions of the runtime API that are in memory. */
            sessions: number;
            chat: boolean;
        };
        ClusterServer: {
            server: string;
            /** @description Shown only to callers with the internal key. */
            address?: string | null;
        };
        /** @description One simple command of a shell line, as shown to the person who decides. */
        CommandPart: {
            text: string;
            /** @description Why this part asks; absent when it would pass by itself. */
            reason?: string | null;
        };
        Completion: {
            status: components["schemas"]["CompletionStatus"];
            message: string;
            agent: components["schemas"]["AgentName"];
        };
        /** @enum {string} */
        CompletionStatus: "success";
        ContextAdded: {
            id: string;
        };
        /** @description What is absent does not matter; both times are included. */
        ContextFilter: {
            type?: string | null;
            success?: boolean | null;
            since?: components["schemas"]["Timestamp"] | null;
            until?: components["schemas"]["Timestamp"] | null;
        };
        ContextHit: {
            id: string;
            text: string;
            /**
             * Format: float
             * @description Compares within one answer only.
             */
            score: number;
            type: string;
            success: boolean;
            task_id?: components["schemas"]["TaskId"] | null;
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description Something that an agent remembers. */
        ContextInteraction: {
            id: string;
            text: string;
            type: string;
            /** @description Absent if it was neither a success nor a failure. */
            success?: boolean | null;
            task_id?: components["schemas"]["TaskId"] | null;
            session_id?: components["schemas"]["SessionId"] | null;
            /** @description What was given with it. */
            metadata?: Record<string, unknown>;
            timestamp: components["schemas"]["Timestamp"];
        };
        ContextList: {
            /** @description Newest first. */
            interactions: components["schemas"]["ContextInteraction"][];
            /** Format: int64 */
            total: number;
            /** Format: int64 */
            limit: number;
            /** Format: int64 */
            offset: number;
        };
        ContextResults: {
            /** @description Best first. */
            results: components["schemas"]["ContextHit"][];
            /** @description The index is being rebuilt, so there may be more to find soon. */
            rebuilding?: boolean;
        };
        CreateAgent: {
            /** @description Unique in the project. */
            name: string;
            role?: string | null;
            description?: string | null;
            /** @description Without it, the agent follows the server's default model. */
            model?: string | null;
            fallback_models?: string[] | null;
            /** Format: double */
            temperature?: number | null;
            /** Format: int32 */
            max_tokens?: number | null;
            /**
             * @description May use `{{messageHistory}}`, `{{userId}}`, `{{currentTime}}`, `{{timezone}}` and
             *     `{{householdId}}`.
             */
            system_prompt?: string | null;
            /** @description Without it, the tools for reading and for finishing. */
            allowed_tools?: components["schemas"]["AllowedTool"][] | null;
            file_restrictions?: string[] | null;
            /**
             * Format: int32
             * @description How many tasks run at once; 4 if absent.
             */
            concurrency_limit?: number | null;
        };
        /** @description Body of `POST /my/projects/{project_id}/mcp`. */
        CreateMcpServer: {
            name: components["schemas"]["McpServerName"];
            url: string;
            /** @description Sent with every request. The values are stored encrypted and never shown. */
            headers?: {
                [key: string]: string;
            };
        };
        CreateProject: {
            name: string;
            description?: string | null;
            /** Format: double */
            budget_usd?: number | null;
            /** Format: int64 */
            budget_tokens?: number | null;
        };
        /** @description Body of `POST /my/chat/sessions`. */
        CreateProjectSession: {
            project_id?: components["schemas"]["ProjectId"] | null;
            /** @description Without it, the first line of the first message. */
            title?: string | null;
            /** Format: double */
            budget_usd?: number | null;
            /** Format: int64 */
            budget_tokens?: number | null;
        };
        CreateSession: {
            session_id: components["schemas"]["SessionId"];
            /** @description Appended to each agent's own prompt. */
            system_prompt?: string | null;
        };
        CurrentAgent: {
            session_id: components["schemas"]["SessionId"];
            current_agent: components["schemas"]["AgentName"];
            /** Format: int64 */
            switch_count: number;
            last_switch_at?: components["schemas"]["Timestamp"] | null;
        };
        /**
         * @description What a person chooses, in upper or lower case.
         * @enum {string}
         */
        DecisionChoice: "APPROVE" | "EDIT" | "REJECT" | "approve" | "edit" | "reject";
        /**
         * @description What happens to a message while another turn runs.
         * @enum {string}
         */
        Delivery: "queue" | "steer";
        /**
         * @description Why a queued message was taken back.
         * @enum {string}
         */
        DequeueReason: "stopped" | "taken_back" | "steers";
        /** @description SHA-256 as lower-case hex. */
        Digest: string;
        DirectAgentCall: {
            agent: components["schemas"]["AgentName"];
            /** @description The user message that is answered. */
            message_id: components["schemas"]["MessageId"];
        };
        /** @description The result of a direct call. */
        DirectAnswer: {
            /** @description The user's message. */
            message_id: components["schemas"]["MessageId"];
            response_message_id?: components["schemas"]["MessageId"] | null;
            mode: components["schemas"]["MessageMode"];
            agent: components["schemas"]["AgentName"];
            status: components["schemas"]["TurnStatus"];
            success: boolean;
            response?: string | null;
            /** @description What the agent recalled from its memory. */
            context?: string[];
            usage?: components["schemas"]["Usage"] | null;
            /**
             * @description What the person should know about the answer: that it was cut, or that another model gave
             *     it.
             */
            warnings?: string[];
            pending?: components["schemas"]["PendingData"] | null;
            error?: string | null;
            error_type?: components["schemas"]["DirectErrorType"] | null;
            error_code?: components["schemas"]["ErrorCode"] | null;
            detail?: string | null;
            /** @description What is known about the failure, such as a model error's `kind`. */
            details?: Record<string, unknown> | null;
        };
        /**
         * @description Why a direct call failed.
         * @enum {string}
         */
        DirectErrorType: "timeout" | "execution" | "unavailable" | "cancelled";
        /** @description The closing frame of a stream, `event: done`. */
        Done: {
            status: components["schemas"]["TurnStatus"];
        };
        /**
         * @description Body of `POST …/tool_calls/{call_id}/elicit`: a server asks the person something while it runs
         *     a call. The answer arrives as a message that `answers` the `call_id` in the response.
         */
        ElicitAnswer: {
            client_id: components["schemas"]["ClientId"];
            /**
             * Format: int32
             * @description Names the question within its call. A repeat with the same key does not ask again.
             */
            question_key?: number | null;
            /** @description What the server asks. */
            message: string;
            /**
             * @description The fields of the answer as JSON Schema. One field is answered plainly, several with a JSON
             *     object.
             */
            requested_schema: Record<string, unknown>;
        };
        /** @description Answer to [`ElicitAnswer`]: the id of the question. */
        ElicitationAsked: {
            call_id: components["schemas"]["CallId"];
        };
        /** @description The body of every error answer. */
        ErrorBody: {
            detail: string;
            error_code?: components["schemas"]["ErrorCode"] | null;
            details?: Record<string, unknown>;
        };
        /**
         * @description Stable codes of the API. The text is the contract; the status applies before a stream
         *     has started.
         * @enum {string}
         */
        ErrorCode: "TOOL_VALIDATION_ERROR" | "FILE_RESTRICTION_ERROR" | "INVALID_MESSAGE_TYPE" | "MISSING_REQUIRED_FIELD" | "SESSION_NOT_FOUND" | "SESSION_CREATION_FAILED" | "AGENT_NOT_FOUND" | "AGENT_SWITCH_FAILED" | "CLASSIFICATION_FAILED" | "LLM_TIMEOUT" | "LLM_ERROR" | "LLM_PROXY_UNAVAILABLE" | "PENDING_APPROVAL_NOT_FOUND" | "HITL_TIMEOUT" | "INVALID_DECISION" | "DB_CONNECTION_ERROR" | "DB_WRITE_ERROR" | "DB_READ_ERROR" | "TOOL_CALL_NOT_FOUND" | "TOOL_CALL_CLAIMED" | "MULTIPLE_TOOL_CALLS" | "INVALID_TOOL_ARGUMENTS" | "AGENT_UNAVAILABLE" | "QUEUE_FULL" | "TASK_TIMEOUT" | "INVALID_PLAN" | "PLAN_NOT_FOUND" | "PROJECT_NOT_FOUND" | "STEP_LIMIT" | "CANCELLED" | "OWNER_UNREACHABLE" | "REWIND_CONFLICT" | "VALIDATION_ERROR" | "UNAUTHORIZED" | "FORBIDDEN" | "NOT_FOUND" | "CONFLICT" | "PAYLOAD_TOO_LARGE" | "RATE_LIMITED";
        ErrorData: {
            message: string;
            error_code: components["schemas"]["ErrorCode"];
            details?: Record<string, unknown>;
        };
        /** @description One frame of an event stream. */
        EventFrame: {
            /** @description The number of the event; absent where nothing is stored. */
            id?: string;
            /** @enum {string} */
            event: "message" | "error" | "done";
            /** @description An event, or how the turn stands in the frame that closes the stream. */
            data: string;
        };
        /** @description A whole session, to keep or to read elsewhere. */
        ExportedSession: {
            session: components["schemas"]["ProjectSession"];
            /** @description Oldest first. */
            messages: components["schemas"]["Message"][];
        };
        /** @description SHA-256 of a file's content in hex; null where there is no file. */
        FileBase: string | null;
        /** @description What a write would do to the file as it is now. */
        FilePreview: {
            base: components["schemas"]["FileBase"];
            /** @description A unified diff from the file to what would be written. Empty where a note says why. */
            diff: string;
            /** @description The agent that wants to write has not read this file. */
            is_unread?: boolean;
            /**
             * @description The agent has read the file, and it changed since. Such a write is refused, and the agent is
             *     told what changed.
             */
            is_outdated?: boolean;
            /** @description The difference is longer than what is shown. */
            truncated?: boolean;
            /** @description Why there is no difference to show, or why the write would fail. */
            note?: string | null;
        };
        /** @description Body of `POST /my/chat/{session_id}/fork`. */
        ForkSession: {
            /** @description The last message of the history that the new session gets: the user's or an agent's. */
            at_message_id: components["schemas"]["MessageId"];
        };
        /** @description Where a session's history comes from. */
        ForkedFrom: {
            /** @description It may have been deleted since. */
            session_id: components["schemas"]["SessionId"];
            /** @description The last message that was copied, by its id there. */
            message_id: components["schemas"]["MessageId"];
        };
        /**
         * @description Event numbers that cannot be read. The stream continues after them. If the reader asked for
         *     events after `to` and the log is shorter than that, the log follows from its start.
         */
        Gap: {
            /** Format: int64 */
            from: number;
            /** Format: int64 */
            to: number;
        };
        /** @description One frame of the Chat's stream. */
        GlobalChatFrame: {
            /** @description The id of the message. A piece has none. */
            id?: string;
            /** @enum {string} */
            event: "message" | "delta";
            /** @description A message, or a piece of the answer that is being written. */
            data: string;
        };
        /** @description A piece of the answer that AdaptiveAgent is writing. The whole answer follows as a message. */
        GlobalDelta: {
            /** @description The same for all pieces of one answer. */
            answer_id: components["schemas"]["MessageId"];
            content: string;
            /**
             * Format: int64
             * @description Where `content` starts, in bytes of the answer's UTF-8 text.
             */
            offset: number;
        };
        /** @description One message of the Chat. */
        GlobalMessage: {
            id: components["schemas"]["GlobalMessageId"];
            ts: components["schemas"]["Timestamp"];
            role: components["schemas"]["GlobalRole"];
            /** @description Who speaks: an agent's name, `user`, or `ChatAgent` for the server itself. */
            author: string;
            /** @description Never blank. */
            text: string;
            meta?: components["schemas"]["GlobalMeta"] | null;
        };
        /**
         * Format: int64
         * @description One message of the global Chat; later ones have larger numbers, also after a restart.
         */
        GlobalMessageId: number;
        /** @description What else is known of a message. */
        GlobalMeta: {
            reply_to?: components["schemas"]["GlobalMessageId"] | null;
            /** @description `question` waits for an answer until a message replies to it; `signal` wakes AdaptiveAgent. */
            tags?: string[];
            user_id?: components["schemas"]["UserId"] | null;
        };
        /** @enum {string} */
        GlobalRole: "agent" | "user" | "system";
        Health: {
            status: components["schemas"]["HealthStatus"];
            version: string;
            multi_agent_mode: boolean;
            registered_agents: components["schemas"]["AgentName"][];
            /** @description What the status is made of, by name. */
            checks: {
                [key: string]: components["schemas"]["HealthCheck"];
            };
            cluster?: components["schemas"]["ClusterHealth"] | null;
        };
        HealthCheck: {
            status: components["schemas"]["HealthStatus"];
            detail?: string | null;
        };
        /** @enum {string} */
        HealthStatus: "healthy" | "degraded" | "unhealthy";
        HistoryCompacted: {
            /**
             * Format: int64
             * @description How many messages the summary stands for.
             */
            messages: number;
            summary: string;
        };
        HistoryCompacting: {
            /**
             * Format: int64
             * @description How many messages the summary will stand for.
             */
            messages: number;
        };
        /** @description A person's decision about an approval. */
        HitlDecision: {
            decision?: components["schemas"]["DecisionChoice"] | null;
            /** @description The new arguments, for EDIT. */
            modified_args?: Record<string, unknown> | null;
            feedback?: string | null;
            /** @description With APPROVE: later calls of the same kind pass for the rest of the session. */
            remember?: boolean | null;
            /** @description The digest that was shown; a wrong one is refused. */
            digest?: string | null;
            base?: components["schemas"]["FileBase"] | null;
        };
        /** @description Body of `PUT …/clients/{client_id}/instructions`: what the client's workspace brings now. */
        InstructionsReport: {
            /** @description Trusted instructions. Models are told of them. */
            files?: components["schemas"]["BroughtText"][];
            /** @description Trusted skills. Models can use them. */
            skills?: components["schemas"]["BroughtSkill"][];
            /** @description Trusted commands, for people. */
            commands?: components["schemas"]["BroughtText"][];
            waiting?: components["schemas"]["WaitingContent"][];
            /** @description What was passed over, and why. */
            notices?: string[];
        };
        LeftFile: {
            path: string;
            reason: string;
        };
        LoggedIn: {
            user_id: components["schemas"]["UserId"];
            expires_at: components["schemas"]["Timestamp"];
        };
        /** @description The ticket of a login link. */
        Login: {
            ticket: string;
        };
        /** @description Answer of `POST …/mcp/{name}/authorize`: where a person agrees. */
        McpAuthorization: {
            url: string;
        };
        /** @description What people are told about the MCP tool of a call. */
        McpCall: components["schemas"]["McpToolId"] & {
            runs_at: components["schemas"]["McpPlace"];
            /** @description What the server says that the tool does; its beginning. */
            description?: string;
            /** @description What the server says about the tool, such as `readOnlyHint`. It is shown and never believed. */
            hints?: {
                [key: string]: boolean;
            };
        };
        /**
         * @description What a person decided about a tool, for all sessions of a project.
         * @enum {string}
         */
        McpPermission: "ask" | "allow" | "forbid";
        /**
         * @description Where a server runs.
         * @enum {string}
         */
        McpPlace: "client" | "server";
        /**
         * @description Body of `PUT /my/projects/{project_id}/clients/{client_id}/mcp`: every server that the tool
         *     runner runs. It replaces what was reported before.
         */
        McpReport: {
            servers: components["schemas"]["ReportedMcpServer"][];
        };
        /** @description A server whose tools the agents of a project can use. */
        McpServer: {
            name: components["schemas"]["McpServerName"];
            runs_at: components["schemas"]["McpPlace"];
            /** @description Absent for a server that a tool runner runs. */
            url?: string | null;
            /** @description The names of the headers that are sent. Nobody can read their values. */
            headers?: string[];
            /** @description Whether CodeLab holds a token of the server's authorization. */
            authorized?: boolean;
            client_id?: components["schemas"]["ClientId"] | null;
            status: components["schemas"]["McpStatus"];
            /** @description What is wrong now. */
            error?: string | null;
            tools: components["schemas"]["McpTool"][];
            created_at?: components["schemas"]["Timestamp"] | null;
        };
        McpServerList: {
            servers: components["schemas"]["McpServer"][];
            /** Format: int64 */
            total: number;
            /** Format: int64 */
            limit: number;
            /** Format: int64 */
            offset: number;
        };
        /** @description The name of an MCP server, unique within a project. */
        McpServerName: string;
        /**
         * @description How a server is doing.
         * @enum {string}
         */
        McpStatus: "starting" | "ready" | "failed" | "idle" | "unauthorized";
        /** @description One tool of a server, as people see it. */
        McpTool: components["schemas"]["ToolDefinition"] & {
            /** @description The digest of the definition. */
            digest: components["schemas"]["Digest"];
            /** @description The name that models see. */
            offered_as: string;
            state: components["schemas"]["McpToolState"];
            permission: components["schemas"]["McpPermission"];
            accepted?: components["schemas"]["ToolDefinition"] | null;
        };
        /** @description One tool of an MCP server, with the definition that was shown to people and models. */
        McpToolId: {
            server: components["schemas"]["McpServerName"];
            /** @description The server's own name of the tool. */
            tool: string;
            /** @description The digest of its definition. */
            definition: components["schemas"]["Digest"];
        };
        /**
         * @description Whether agents can be offered a tool.
         * @enum {string}
         */
        McpToolState: "on" | "changed" | "collides" | "forbidden";
        /** @description A message of the history. `name` is the agent (assistant) or the tool (tool). */
        Message: {
            message_id: components["schemas"]["MessageId"];
            role: components["schemas"]["Role"];
            content: string;
            agent_id?: components["schemas"]["AgentName"] | null;
            name?: string | null;
            tool_calls?: components["schemas"]["ToolCall"][];
            tool_call_id?: components["schemas"]["CallId"] | null;
            timestamp: components["schemas"]["Timestamp"];
            usage?: components["schemas"]["Usage"] | null;
            /** @description Set when this message reports a failure instead of an answer. */
            error?: boolean;
            answers?: components["schemas"]["CallId"] | null;
            plan_id?: components["schemas"]["PlanId"] | null;
            task_id?: components["schemas"]["TaskId"] | null;
            /**
             * @description What the person should know about this answer: that it was cut, or that another model gave
             *     it.
             */
            warnings?: string[];
            reasoning?: components["schemas"]["Reasoning"] | null;
            /** @description The answer ended at its token limit. */
            is_cut?: boolean;
            /** @description The turn ended before the answer did; `content` is what was streamed of it until then. */
            partial?: boolean;
            reason?: components["schemas"]["PartialReason"] | null;
            /** @description Why the turn failed, where `content` is a partial answer. */
            error_message?: string | null;
            retries?: components["schemas"]["MessageId"] | null;
            /** @description The user said it to the agents that were at work; it began no turn. */
            steered?: boolean;
            /** @description The files that the user sent with it, or the image that a tool read. */
            attachments?: components["schemas"]["Attachment"][];
            rewound?: components["schemas"]["RewindId"] | null;
        };
        /** @description The message is durable and will be worked on. */
        MessageAccepted: {
            message_id?: components["schemas"]["MessageId"] | null;
            mode: components["schemas"]["MessageMode"];
            status: components["schemas"]["AcceptedStatus"];
            workflow_id?: components["schemas"]["WorkflowId"] | null;
            /**
             * Format: int64
             * @description Its position in the queue: 1 is next. 0 when it has begun and waits for a slot of its agent.
             */
            position?: number | null;
        };
        MessageCreated: components["schemas"]["TaskOrigin"] & components["schemas"]["Message"] & {
            workflow_id?: components["schemas"]["WorkflowId"] | null;
        };
        MessageDelta: components["schemas"]["TaskOrigin"] & {
            content: string;
            agent: components["schemas"]["AgentName"];
            message_id: components["schemas"]["MessageId"];
            /**
             * Format: int32
             * @description A higher attempt replaces what was shown for this message.
             */
            attempt: number;
            /**
             * Format: int64
             * @description Where `content` starts, in bytes of the message's UTF-8 text.
             */
            offset: number;
        };
        MessageDequeued: {
            message_id: components["schemas"]["MessageId"];
            reason: components["schemas"]["DequeueReason"];
        };
        /** @description One stored message. */
        MessageId: string;
        MessageList: {
            messages: components["schemas"]["Message"][];
            /** Format: int64 */
            total: number;
            /** Format: int64 */
            limit: number;
            /** Format: int64 */
            offset: number;
        };
        /** @enum {string} */
        MessageMode: "direct" | "orchestrated";
        MessagePosted: {
            id: components["schemas"]["GlobalMessageId"];
        };
        MessageQueued: {
            message_id: components["schemas"]["MessageId"];
            workflow_id?: components["schemas"]["WorkflowId"] | null;
            /**
             * Format: int64
             * @description 1 = next.
             */
            position: number;
            /**
             * @description It waits for the next tool results of the turn that runs, not for its end. An event without
             *     it, for the same message, says that the turn ended before.
             */
            steers?: boolean;
            /** @description What it says. Absent in events of earlier versions. */
            content?: string;
            attachments?: components["schemas"]["Attachment"][];
        };
        /** @enum {string} */
        MessageType: "user_message" | "tool_result" | "switch_agent" | "hitl_decision";
        /** @description The texts that the server does not have yet. */
        MissingTexts: {
            missing: components["schemas"]["Digest"][];
        };
        /**
         * @description The reason for a failed model call, in words that a program can act upon.
         * @enum {string}
         */
        ModelFailureKind: "wrong_key" | "unknown_model" | "context_too_long" | "content_filter" | "rate_limit" | "quota" | "overloaded" | "server_error" | "timeout" | "unreachable" | "nonsense";
        /** @description A model cannot answer now, so another one is asked. */
        ModelFallback: components["schemas"]["TaskOrigin"] & {
            /** @description Names as in the settings. */
            from: string;
            to: string;
            /** @description Why `from` cannot answer. */
            kind: components["schemas"]["ModelFailureKind"];
            agent: components["schemas"]["AgentName"];
        };
        /** @description The models that the connected providers offer. */
        ModelList: {
            models: components["schemas"]["OfferedModel"][];
            /** @description Providers that did not list their models. */
            unavailable: components["schemas"]["UnlistedProvider"][];
        };
        /** @description US dollars per million tokens. */
        ModelPrice: {
            /** Format: double */
            input_per_million_usd: number;
            /** Format: double */
            output_per_million_usd: number;
            /** Format: double */
            cached_input_per_million_usd: number;
            /** Format: double */
            cache_write_per_million_usd: number;
        };
        /** @description What came of one short call to a model. */
        ModelTried: {
            ok: boolean;
            /** @description Why it failed, in a sentence. */
            detail?: string | null;
            /** @description Why it failed: `kind`, and where they are known `provider_message`, `model` and `status`. */
            details?: Record<string, unknown> | null;
        };
        /** @description The model's server said when it can be asked again, and the call waits for that. */
        ModelWaiting: components["schemas"]["TaskOrigin"] & {
            kind: components["schemas"]["ModelFailureKind"];
            until: components["schemas"]["Timestamp"];
            agent: components["schemas"]["AgentName"];
        };
        /** @description A file as a message brings it: a PNG, JPEG, GIF or WebP image, or a text in UTF-8. */
        NewAttachment: {
            name: string;
            media_type: string;
            /**
             * Format: byte
             * @description The content in base64.
             */
            data: string;
        };
        NotCovered: {
            /** @description The tool that did it. */
            tool: string;
            /** @description The command, or the path. */
            what: string;
            reason?: string | null;
        };
        OfferedModel: {
            /** @description The name to set for an agent. It begins with the provider, except for the default one. */
            model: string;
            provider: string;
            /**
             * Format: int64
             * @description The context window in tokens.
             */
            window?: number | null;
            /** @description Whether the model reads images. */
            images?: boolean | null;
            price?: components["schemas"]["ModelPrice"] | null;
        };
        /** @description An open approval and where it waits. */
        OpenApproval: components["schemas"]["ApprovalInfo"] & {
            session_id: components["schemas"]["SessionId"];
            project_id: components["schemas"]["ProjectId"];
        };
        /**
         * @description Why an answer is only what was streamed of it.
         * @enum {string}
         */
        PartialReason: "stopped" | "failed";
        PendingApprovals: {
            session_id: components["schemas"]["SessionId"];
            pending_approvals: components["schemas"]["ApprovalInfo"][];
        };
        /** @description What a direct call waits for: a tool's result, a decision or an answer. */
        PendingData: components["schemas"]["PendingToolCall"] | components["schemas"]["ApprovalRequest"] | components["schemas"]["AgentQuestion"];
        /** @description A tool call that waits for its result. Its id stands where approvals and questions have theirs. */
        PendingToolCall: components["schemas"]["ToolCallEvent"] & {
            call_id: components["schemas"]["CallId"];
        };
        /** @description Body of `POST …/mcp/{name}/permission`. */
        PermitMcpTool: {
            tool: string;
            permission: components["schemas"]["McpPermission"];
        };
        /** @description A plan as people see it. */
        Plan: {
            plan_id: components["schemas"]["PlanId"];
            workflow_id: components["schemas"]["WorkflowId"];
            status: components["schemas"]["PlanStatus"];
            /** @description The planner's answer was not usable, so keywords chose one agent. */
            fallback: boolean;
            /** Format: double */
            estimated_cost_usd: number;
            /** @description Whether the price of every task's model is known; if not, the estimate covers only a part. */
            cost_known: boolean;
            requires_approval: boolean;
            tasks: components["schemas"]["Task"][];
        };
        /** @description A person's decision about a plan. */
        PlanDecision: {
            decision: components["schemas"]["DecisionChoice"];
            /** @description The tasks as they should run, for `edit`. */
            tasks?: components["schemas"]["PlannedTask"][] | null;
            feedback?: string | null;
            /** @description The digest that was shown; a wrong one is refused. */
            digest?: string | null;
        };
        /** @description One plan of a session; also the call id of its approval. */
        PlanId: string;
        PlanList: {
            plans: components["schemas"]["Plan"][];
            /** Format: int64 */
            total: number;
            /** Format: int64 */
            limit: number;
            /** Format: int64 */
            offset: number;
        };
        PlanRequest: components["schemas"]["ApprovalInfo"] & {
            plan_id: components["schemas"]["PlanId"];
        };
        PlanResolved: {
            plan_id: components["schemas"]["PlanId"];
            decision: components["schemas"]["ApprovalOutcome"];
            decided_by: string;
            reason?: string | null;
            /** @description The tasks as they will run, after an edit. */
            tasks?: components["schemas"]["PlannedTask"][];
        };
        /** @enum {string} */
        PlanStatus: "awaiting_approval" | "running" | "completed" | "partial" | "failed" | "cancelled";
        /** @description A task as the planner, or a person who edits the plan, writes it. */
        PlannedTask: {
            id: components["schemas"]["TaskId"];
            agent: string;
            description: string;
            depends_on?: components["schemas"]["TaskId"][];
            /** @description The files and folders that it will write, relative to the workspace: at most 20. */
            paths?: string[];
            /** Format: int64 */
            estimated_tokens?: number;
        };
        /** @description Body of `POST /chat/agent_message`. */
        PostAgentMessage: {
            author: string;
            text: string;
            meta?: components["schemas"]["AgentMeta"] | null;
        };
        /** @description Body of `POST /chat/user_message`. */
        PostUserMessage: {
            /** @description Blank or missing is refused with 400. */
            text: string;
        };
        Project: {
            project_id: components["schemas"]["ProjectId"];
            name: string;
            description?: string | null;
            /**
             * Format: double
             * @description What the project may spend; absent = no limit.
             */
            budget_usd?: number | null;
            /** Format: int64 */
            budget_tokens?: number | null;
            /** @description New sessions without a project belong to this one. */
            is_default: boolean;
            created_at: components["schemas"]["Timestamp"];
            updated_at: components["schemas"]["Timestamp"];
        };
        /** @description An agent of a project. */
        ProjectAgent: {
            agent_id: components["schemas"]["AgentId"];
            name: components["schemas"]["AgentName"];
            role: string;
            description: string;
            /** @description The model that will be called, before `model_map` and `LLM_MODEL_OVERRIDE`. */
            model: string;
            /** @description Whether the model is the server's default, because nobody has chosen one. */
            model_inherited: boolean;
            /**
             * @description Tried in order when a call fails before its first token. Empty: the server's own
             *     (`llm.fallback_models`).
             */
            fallback_models: string[];
            /**
             * Format: double
             * @description Without it, the model's own default.
             */
            temperature?: number | null;
            /** Format: int32 */
            max_tokens?: number | null;
            system_prompt: string;
            allowed_tools: components["schemas"]["AllowedTool"][];
            /**
             * @description Regular expressions; only files that match one of them may be written. Absent = no
             *     restriction.
             */
            file_restrictions?: string[] | null;
            /** Format: int32 */
            concurrency_limit: number;
            created_at: components["schemas"]["Timestamp"];
            updated_at: components["schemas"]["Timestamp"];
        };
        ProjectAgentList: {
            agents: components["schemas"]["ProjectAgent"][];
            /** Format: int64 */
            total: number;
            /** Format: int64 */
            limit: number;
            /** Format: int64 */
            offset: number;
        };
        /**
         * Format: int64
         * @description One project of a user.
         */
        ProjectId: number;
        ProjectList: {
            projects: components["schemas"]["Project"][];
            /** Format: int64 */
            total: number;
            /** Format: int64 */
            limit: number;
            /** Format: int64 */
            offset: number;
        };
        /** @description A plan, and the session that it was made in. */
        ProjectPlan: components["schemas"]["Plan"] & {
            session_id: components["schemas"]["SessionId"];
            /** @description The session's title. */
            title?: string | null;
        };
        ProjectPlanList: {
            /** @description Newest first. */
            plans: components["schemas"]["ProjectPlan"][];
            /** Format: int64 */
            total: number;
            /** Format: int64 */
            limit: number;
            /** Format: int64 */
            offset: number;
        };
        ProjectSession: {
            session_id: components["schemas"]["SessionId"];
            project_id: components["schemas"]["ProjectId"];
            title?: string | null;
            created_at: components["schemas"]["Timestamp"];
            last_activity: components["schemas"]["Timestamp"];
            /** Format: int64 */
            message_count: number;
            /** @description A question of an agent waits for an answer. */
            asks?: boolean;
            /** @description The model that was chosen for this session. Lists leave it out. */
            model?: string | null;
            agent?: components["schemas"]["AgentName"] | null;
            approve?: components["schemas"]["ApproveMode"] | null;
            /** @description A summary that a person asked for is being written. Lists leave it out. */
            compacting?: boolean;
            forked_from?: components["schemas"]["ForkedFrom"] | null;
            pinned: boolean;
            archived: boolean;
            /**
             * @description Plain text of a message or of the title, where the words of a search were found. Only
             *     searches have it.
             */
            snippet?: string | null;
        };
        ProjectSessionAck: {
            session_id: components["schemas"]["SessionId"];
            status?: components["schemas"]["TurnStatus"] | null;
        };
        ProjectSessionCancelled: {
            session_id: components["schemas"]["SessionId"];
            /** @description Whether there was a turn to cancel. */
            cancelled: boolean;
            /** Format: int64 */
            queued: number;
        };
        /** @description A session with its newest messages and its state. */
        ProjectSessionDetail: components["schemas"]["ProjectSession"] & {
            /** @description The newest ones, oldest first. */
            messages: components["schemas"]["Message"][];
            status?: components["schemas"]["TurnStatus"] | null;
            busy: boolean;
            /** Format: int64 */
            queued: number;
            /** Format: double */
            budget_usd?: number | null;
            /** Format: int64 */
            budget_tokens?: number | null;
            usage: components["schemas"]["UsageTotal"];
        };
        ProjectSessionList: {
            sessions: components["schemas"]["ProjectSession"][];
            /** Format: int64 */
            total: number;
            /** Format: int64 */
            limit: number;
            /** Format: int64 */
            offset: number;
        };
        ProjectUsage: {
            project_id: components["schemas"]["ProjectId"];
            usage: components["schemas"]["UsageTotal"];
        };
        Question: {
            call_id: components["schemas"]["CallId"];
            question: string;
            options?: string[];
            agent: components["schemas"]["AgentName"];
        };
        /** @description What a model thought before it answered. It is never a part of the answer's text. */
        Reasoning: {
            /** @description For people to read. Empty when the provider encrypts it. */
            text: string;
            /** @description The provider that made it. Only this provider gets it back. */
            provider: string;
            /** @description What the provider wants back, unchanged, in its own format. Nobody else reads it. */
            opaque?: Record<string, unknown>;
        };
        /** @description Calls that pass without a question, because a person approved one with `remember`. */
        Remembered: components["schemas"]["RememberedCalls"] & {
            id: components["schemas"]["RememberedId"];
        };
        /** @description Which calls pass. */
        RememberedCalls: {
            /** @enum {string} */
            kind: "file_writes";
        } | {
            command: string;
            cwd?: string | null;
            /** @enum {string} */
            kind: "command";
        } | {
            server: components["schemas"]["McpServerName"];
            tool: string;
            /** @enum {string} */
            kind: "mcp_tool";
        };
        /** @description Something that a person allowed for the rest of a session; unique within it. */
        RememberedId: string;
        /** @description Oldest first; at most 100. */
        RememberedList: {
            remembered: components["schemas"]["Remembered"][];
        };
        /** @description A person took back what was remembered: such calls ask again. */
        RememberedRevoked: components["schemas"]["Remembered"] & {
            /** @description The user. */
            revoked_by: string;
        };
        /** @description Body of `POST …/tool_calls/{call_id}/progress`. */
        ReportProgress: {
            client_id: components["schemas"]["ClientId"];
            /** Format: double */
            progress: number;
            /** Format: double */
            total?: number | null;
            message?: string | null;
        };
        /** @description What a tool runner says about one server that it runs. */
        ReportedMcpServer: {
            name: components["schemas"]["McpServerName"];
            status: components["schemas"]["McpStatus"];
            error?: string | null;
            tools?: components["schemas"]["ToolDefinition"][];
        };
        ResultAck: {
            call_id: components["schemas"]["CallId"];
            /** @description The same result was received before. */
            duplicate: boolean;
        };
        /** @description Body of `POST /my/chat/{session_id}/retry`. */
        RetryTurn: {
            message_id?: components["schemas"]["MessageId"] | null;
        };
        /** @description A rewind that is still under way: the event `rewound` tells of its end. */
        RewindAccepted: {
            rewind_id: components["schemas"]["RewindId"];
        };
        /** @description One rewind; unique within its session. */
        RewindId: string;
        /**
         * @description What a rewind takes back.
         * @enum {string}
         */
        RewindScope: "files" | "conversation" | "both";
        /** @description The body of `POST /my/chat/{session_id}/rewind`: either `to_message_id` with `scope`, or `undo`. */
        RewindSession: {
            to_message_id?: components["schemas"]["MessageId"] | null;
            scope?: components["schemas"]["RewindScope"] | null;
            undo?: components["schemas"]["RewindId"] | null;
        };
        /** @description How a rewind, or its undoing, ended. The event `rewound` and the answer of the request. */
        Rewound: {
            rewind_id: components["schemas"]["RewindId"];
            scope: components["schemas"]["RewindScope"];
            to_message_id: components["schemas"]["MessageId"];
            /** @description Files and folders that are again as they were. */
            restored: string[];
            /** @description Files that somebody else changed. They were not touched, or not taken back as far as wanted. */
            left: components["schemas"]["LeftFile"][];
            /**
             * @description What no rewind takes back: what commands and MCP tools did, and writes of which nothing was
             *     kept.
             */
            not_covered: components["schemas"]["NotCovered"][];
            /**
             * Format: int64
             * @description Messages that were taken back, or that are there again.
             */
            messages?: number;
            /** @description The rewind itself was taken back. */
            undone?: boolean;
            /** @description Why the files were not taken back. The conversation stays as well then. */
            error?: string | null;
        };
        /** @enum {string} */
        Role: "system" | "user" | "assistant" | "tool";
        /**
         * @description What keeps a client's commands within its workspace.
         * @enum {string}
         */
        SandboxKind: "bwrap+landlock" | "bwrap" | "landlock" | "none";
        /** @description The answer to saving an agent. */
        SavedAgent: components["schemas"]["ProjectAgent"] & {
            /**
             * @description What was saved but may not work as written: unknown placeholders in the prompt, an unknown
             *     model.
             */
            warnings: string[];
        };
        /** @description Body of `POST …/agents/{agent_id}/context/search`. */
        SearchContext: {
            query: string;
            /**
             * Format: int32
             * @description 5 if absent.
             */
            top_k?: number | null;
            filter?: components["schemas"]["ContextFilter"] | null;
        };
        /** @description Body of `POST /my/chat/{session_id}/message`. */
        SendMessage: {
            content: string;
            /**
             * @description An agent's id, its name, or its name without the `agent_` prefix. Absent: the request is
             *     planned.
             */
            target_agent?: string | null;
            client_message_id?: components["schemas"]["ClientMessageId"] | null;
            /** @description Files for the agents: images, and texts in UTF-8. */
            attachments?: components["schemas"]["NewAttachment"][];
            /** @description What happens to it while another turn runs. Otherwise it makes no difference. */
            delivery?: components["schemas"]["Delivery"];
        };
        /** @description Body of `PUT /my/chat/{session_id}/approvals/{call_id}/preview`. */
        SendPreview: components["schemas"]["FilePreview"] & {
            client_id: components["schemas"]["ClientId"];
            /**
             * @description The result of the call, where it is certain without writing: the write would be refused, or
             *     the file has this content already. With the first preview of an approval nobody is asked.
             */
            certain_result?: Record<string, unknown> | null;
        };
        /** @description Body of `POST …/clients/{client_id}/instructions`: texts that the server asked for. */
        SendTexts: {
            texts: string[];
        };
        /** @description Answer of an action on a session. */
        SessionAck: {
            session_id: components["schemas"]["SessionId"];
            /** @description What the action did. */
            status: components["schemas"]["AckStatus"];
            current_agent: components["schemas"]["AgentName"];
            turn?: components["schemas"]["TurnStatus"] | null;
            /** Format: int64 */
            queued: number;
        };
        SessionCreated: {
            session_id: components["schemas"]["SessionId"];
            created_at: components["schemas"]["Timestamp"];
            /** @enum {string} */
            status: "created";
        };
        /** @description One event of a session's log: `{"type", "session_id", "seq", "timestamp", "data"}`. */
        SessionEvent: components["schemas"]["SessionEventBody"] & {
            session_id: components["schemas"]["SessionId"];
            /**
             * Format: int64
             * @description Absent in events that are not stored.
             */
            seq?: number | null;
            timestamp: components["schemas"]["Timestamp"];
        };
        SessionEventBody: {
            data: components["schemas"]["MessageCreated"];
            /** @enum {string} */
            type: "message_created";
        } | {
            /** @description Tokens as they arrive; ephemeral, never stored, without a number. */
            data: components["schemas"]["MessageDelta"];
            /** @enum {string} */
            type: "message_delta";
        } | {
            /** @description What the model thinks, as it arrives; ephemeral as well. It is no part of the answer's text. */
            data: components["schemas"]["MessageDelta"];
            /** @enum {string} */
            type: "reasoning_delta";
        } | {
            data: components["schemas"]["MessageQueued"];
            /** @enum {string} */
            type: "message_queued";
        } | {
            /** @description A queued message was taken back: it will not be said. */
            data: components["schemas"]["MessageDequeued"];
            /** @enum {string} */
            type: "message_dequeued";
        } | {
            data: components["schemas"]["DirectAgentCall"];
            /** @enum {string} */
            type: "direct_agent_call";
        } | {
            data: components["schemas"]["AgentStatusChanged"];
            /** @enum {string} */
            type: "agent_status_changed";
        } | {
            data: components["schemas"]["SwitchAgent"];
            /** @enum {string} */
            type: "agent_switched";
        } | {
            data: components["schemas"]["Plan"];
            /** @enum {string} */
            type: "task_plan_created";
        } | {
            /** @description A plan waits for a person. */
            data: components["schemas"]["PlanRequest"];
            /** @enum {string} */
            type: "plan_request";
        } | {
            data: components["schemas"]["PlanResolved"];
            /** @enum {string} */
            type: "plan_resolved";
        } | {
            data: components["schemas"]["TaskStarted"];
            /** @enum {string} */
            type: "task_started";
        } | {
            data: components["schemas"]["TaskProgress"];
            /** @enum {string} */
            type: "task_progress";
        } | {
            data: components["schemas"]["TaskCompleted"];
            /** @enum {string} */
            type: "task_completed";
        } | {
            data: components["schemas"]["TaskFailed"];
            /** @enum {string} */
            type: "task_failed";
        } | {
            data: components["schemas"]["TaskSkipped"];
            /** @enum {string} */
            type: "task_skipped";
        } | {
            data: components["schemas"]["WorkflowCompleted"];
            /** @enum {string} */
            type: "workflow_completed";
        } | {
            data: components["schemas"]["ToolCallEvent"];
            /** @enum {string} */
            type: "tool_call";
        } | {
            data: components["schemas"]["ToolResultEvent"];
            /** @enum {string} */
            type: "tool_result";
        } | {
            /** @description How far a call is; ephemeral, never stored, without a number. */
            data: components["schemas"]["ToolProgress"];
            /** @enum {string} */
            type: "tool_progress";
        } | {
            /** @description The call has ended or will not run any more. A client that runs it stops. */
            data: components["schemas"]["ToolCallClosed"];
            /** @enum {string} */
            type: "tool_call_closed";
        } | {
            data: components["schemas"]["ApprovalRequest"];
            /** @enum {string} */
            type: "approval_request";
        } | {
            /** @description What a call that waits would write, as the file is now. */
            data: components["schemas"]["ApprovalPreview"];
            /** @enum {string} */
            type: "approval_preview";
        } | {
            data: components["schemas"]["ApprovalResolved"];
            /** @enum {string} */
            type: "approval_resolved";
        } | {
            data: components["schemas"]["AgentQuestion"];
            /** @enum {string} */
            type: "question";
        } | {
            data: components["schemas"]["TurnError"];
            /** @enum {string} */
            type: "error";
        } | {
            /** @description A person wants the history summed up, and the model is asked to. */
            data: components["schemas"]["HistoryCompacting"];
            /** @enum {string} */
            type: "history_compacting";
        } | {
            data: components["schemas"]["HistoryCompacted"];
            /** @enum {string} */
            type: "history_compacted";
        } | {
            /** @description The summary that a person asked for could not be written. */
            data: components["schemas"]["ErrorData"];
            /** @enum {string} */
            type: "compaction_failed";
        } | {
            data: components["schemas"]["RememberedRevoked"];
            /** @enum {string} */
            type: "remembered_revoked";
        } | {
            /** @description What passes without a question in this session is another thing now. */
            data: components["schemas"]["ApproveChanged"];
            /** @enum {string} */
            type: "approve_changed";
        } | {
            /** @description A person took back files, messages or both, or gave them back. */
            data: components["schemas"]["Rewound"];
            /** @enum {string} */
            type: "rewound";
        } | {
            data: components["schemas"]["ModelFallback"];
            /** @enum {string} */
            type: "model_fallback";
        } | {
            data: components["schemas"]["ModelWaiting"];
            /** @enum {string} */
            type: "model_waiting";
        } | {
            /** @description Something begins to wait for a person. */
            data: components["schemas"]["Waiting"];
            /** @enum {string} */
            type: "waiting_added";
        } | {
            /** @description It was decided or answered, it expired, or its turn ended. */
            data: components["schemas"]["WaitingRemoved"];
            /** @enum {string} */
            type: "waiting_removed";
        } | {
            /** @description These event numbers were pruned and can no longer be read; never stored itself. */
            data: components["schemas"]["Gap"];
            /** @enum {string} */
            type: "gap";
        };
        /** @description One frame of an event stream. */
        SessionEventFrame: {
            /** @description The number of the event; absent where nothing is stored. */
            id?: string;
            /** @description The type of the event, or `done`. */
            event: string;
            /** @description An event, or how the turn stands in the frame that closes the stream. */
            data: string;
        };
        SessionHistory: {
            session_id: components["schemas"]["SessionId"];
            messages: components["schemas"]["Message"][];
        };
        /** @description One session. The caller chooses the id in the runtime API, the server in a project. */
        SessionId: string;
        SessionInfo: {
            session_id: components["schemas"]["SessionId"];
            title?: string | null;
            created_at: components["schemas"]["Timestamp"];
            last_activity: components["schemas"]["Timestamp"];
            is_active: boolean;
            /** Format: int64 */
            message_count: number;
        };
        SessionList: {
            sessions: components["schemas"]["SessionInfo"][];
            /** Format: int64 */
            total: number;
            /** Format: int64 */
            limit: number;
            /** Format: int64 */
            offset: number;
        };
        SessionUsage: {
            session_id: components["schemas"]["SessionId"];
            project_id: components["schemas"]["ProjectId"];
            title?: string | null;
            usage: components["schemas"]["UsageTotal"];
        };
        SpaceHealth: {
            status: components["schemas"]["HealthStatus"];
            /** @description What the status is made of, by name. */
            checks: {
                [key: string]: components["schemas"]["HealthCheck"];
            };
        };
        /** @description `get_metrics` of a worker space. */
        SpaceMetrics: {
            user_id: components["schemas"]["UserId"];
            project_id: components["schemas"]["ProjectId"];
            /** @description Whether the space is live; reading a cleaned one does not rebuild it. */
            active: boolean;
            /** Format: int64 */
            active_agents: number;
            /** Format: int64 */
            cache_size: number;
            /** Format: int64 */
            total_tasks_processed: number;
            /** Format: int64 */
            active_tasks: number;
            /** Format: int64 */
            queued_tasks: number;
            /**
             * Format: double
             * @description Seconds.
             */
            uptime: number;
            is_healthy: boolean;
            /** Format: int64 */
            direct_calls_count: number;
            /** Format: int64 */
            orchestrated_calls_count: number;
            average_duration: components["schemas"]["AverageDuration"];
            /** Format: int64 */
            attached_clients: number;
        };
        SwitchAgent: {
            from_agent: components["schemas"]["AgentName"];
            to_agent: components["schemas"]["AgentName"];
            reason: string;
            confidence?: string | null;
            timestamp: components["schemas"]["Timestamp"];
        };
        SwitchEntry: {
            from_agent: components["schemas"]["AgentName"];
            to_agent: components["schemas"]["AgentName"];
            reason: string;
            confidence?: string | null;
            timestamp: components["schemas"]["Timestamp"];
        };
        Task: {
            id: components["schemas"]["TaskId"];
            agent: components["schemas"]["AgentName"];
            description: string;
            depends_on: components["schemas"]["TaskId"][];
            /**
             * @description The files and folders that it will write, relative to the workspace. Tasks with a common one
             *     do not run at once.
             */
            paths: string[];
            /** @description The tasks that it waits for only because they write the same files. */
            waits_for?: components["schemas"]["TaskId"][];
            status: components["schemas"]["TaskStatus"];
            /** Format: int64 */
            estimated_tokens: number;
            /**
             * Format: double
             * @description Absent when the price of the agent's model is not known.
             */
            estimated_cost_usd?: number | null;
            result?: string | null;
            error?: components["schemas"]["ErrorData"] | null;
            usage?: components["schemas"]["Usage"] | null;
        };
        /** @description A direct call or a task of a plan that ended well. */
        TaskCompleted: components["schemas"]["TaskOrigin"] & {
            agent: components["schemas"]["AgentName"];
            success: boolean;
            response: string;
            /** @description The assistant message that holds the answer. */
            message_id: components["schemas"]["MessageId"];
            /** @description What the agent recalled from its memory. */
            context?: string[];
            usage?: components["schemas"]["Usage"] | null;
        };
        TaskFailed: {
            plan_id: components["schemas"]["PlanId"];
            task_id: components["schemas"]["TaskId"];
            agent: components["schemas"]["AgentName"];
            error: components["schemas"]["ErrorData"];
        };
        /** @description One task; unique within its plan. */
        TaskId: string;
        /** @description The task that something belongs to; empty for a session's own turn. */
        TaskOrigin: {
            plan_id?: components["schemas"]["PlanId"] | null;
            task_id?: components["schemas"]["TaskId"] | null;
        };
        TaskProgress: {
            plan_id: components["schemas"]["PlanId"];
            task_id: components["schemas"]["TaskId"];
            agent: components["schemas"]["AgentName"];
            /**
             * Format: int32
             * @description Model steps so far.
             */
            step: number;
            /** @description What the step did: `answer`, or the tools it calls. */
            note: string;
            /** Format: int64 */
            tasks_done: number;
            /** Format: int64 */
            tasks_total: number;
        };
        TaskSkipped: {
            plan_id: components["schemas"]["PlanId"];
            task_id: components["schemas"]["TaskId"];
            agent: components["schemas"]["AgentName"];
            /** @description The failed task that this one depends on. */
            because_of: components["schemas"]["TaskId"];
        };
        TaskStarted: {
            plan_id: components["schemas"]["PlanId"];
            task_id: components["schemas"]["TaskId"];
            agent: components["schemas"]["AgentName"];
            description: string;
        };
        /** @enum {string} */
        TaskStatus: "pending" | "queued" | "running" | "waiting" | "completed" | "failed" | "skipped" | "cancelled";
        /**
         * Format: date-time
         * @description Milliseconds since 1970-01-01T00:00:00Z. On the wire: RFC 3339 in UTC, e.g.
         *     `2026-01-13T20:00:00.000Z`.
         */
        Timestamp: string;
        /** @description One tool call of an assistant message, with the arguments as the model gave them. */
        ToolCall: {
            call_id: components["schemas"]["CallId"];
            name: string;
            arguments: Record<string, unknown>;
        };
        ToolCallChunk: {
            tool_call: components["schemas"]["ToolCall"];
            requires_approval: boolean;
            /** @description Present once a person or a remembered rule has approved the call. */
            approved?: boolean;
            reason?: string | null;
            digest: components["schemas"]["Digest"];
            mcp?: components["schemas"]["McpCall"] | null;
            /** @description The simple commands of a shell line, each with the reason why it needs approval. */
            parts?: components["schemas"]["CommandPart"][];
            expires_at?: components["schemas"]["Timestamp"] | null;
            agent: components["schemas"]["AgentName"];
            user_id?: components["schemas"]["UserId"] | null;
            base?: components["schemas"]["FileBase"] | null;
        };
        ToolCallClosed: {
            call_id: components["schemas"]["CallId"];
            outcome: components["schemas"]["CallOutcome"];
        };
        ToolCallEvent: components["schemas"]["ToolCallChunk"] & components["schemas"]["TaskOrigin"] & {
            /** @description Whether a client is attached that can run it. */
            client_attached: boolean;
        };
        /** @description A tool as its server describes it. */
        ToolDefinition: {
            /** @description The server's own name of the tool. */
            name: string;
            title?: string | null;
            description?: string;
            /** @description Its arguments as JSON Schema. */
            input_schema: Record<string, unknown>;
            /** @description What the server says about the tool, such as `readOnlyHint`. It is shown and never believed. */
            annotations?: Record<string, unknown> | null;
        };
        ToolProgress: {
            call_id: components["schemas"]["CallId"];
            /** Format: double */
            progress: number;
            /** Format: double */
            total?: number | null;
            message?: string | null;
        };
        ToolResultChunk: {
            call_id: components["schemas"]["CallId"];
            tool_name: string;
            result: unknown;
        };
        ToolResultEvent: components["schemas"]["TaskOrigin"] & {
            call_id: components["schemas"]["CallId"];
            tool_name: string;
            result: unknown;
            /** @description The result came after the call was closed. */
            late?: boolean;
        };
        /** @description Body of `POST …/clients/{client_id}/trust`: a person trusts this very content. */
        TrustContent: {
            kind: components["schemas"]["BroughtKind"];
            path: string;
            digest: components["schemas"]["Digest"];
        };
        /** @description What a person trusted and the client has not taken up yet. */
        TrustDecisions: {
            decisions: components["schemas"]["TrustContent"][];
        };
        /** @description Body of `POST /my/models/test`. */
        TryModel: {
            /** @description The name as an agent has it. */
            model: string;
        };
        TurnError: components["schemas"]["ErrorData"] & components["schemas"]["TaskOrigin"];
        /**
         * @description The state of a turn when its stream ends.
         * @enum {string}
         */
        TurnStatus: "completed" | "awaiting_tool_result" | "awaiting_approval" | "awaiting_answer" | "failed" | "cancelled";
        UnlistedProvider: {
            provider: string;
            kind: components["schemas"]["ModelFailureKind"];
            message: string;
        };
        /** @description What a model call used, as the model reported it. */
        Usage: {
            /**
             * Format: int64
             * @description All that the model read, `cached_tokens` and `cache_write_tokens` included.
             */
            prompt_tokens: number;
            /**
             * Format: int64
             * @description All that the model wrote, `reasoning_tokens` included.
             */
            completion_tokens: number;
            /** Format: int64 */
            total_tokens: number;
            /**
             * Format: int64
             * @description The part of `prompt_tokens` that came from the provider's cache.
             */
            cached_tokens?: number;
            /**
             * Format: int64
             * @description The part of `completion_tokens` that the model spent on thinking.
             */
            reasoning_tokens?: number;
            /**
             * Format: int64
             * @description The part of `prompt_tokens` that the provider wrote to its cache.
             */
            cache_write_tokens?: number;
            /** Format: double */
            cost_usd?: number | null;
            /**
             * @description The model that answered, as a setting names it: with its provider, unless that is the
             *     default one. `None` in a sum over several models.
             */
            model?: string | null;
        };
        UsageReport: {
            total: components["schemas"]["UsageTotal"];
            projects: components["schemas"]["ProjectUsage"][];
            /** @description The sessions with the newest activity. */
            sessions: components["schemas"]["SessionUsage"][];
            agents: components["schemas"]["AgentUsage"][];
        };
        /** @description Tokens and dollars of many model calls. */
        UsageTotal: {
            /** Format: int64 */
            calls: number;
            /** Format: int64 */
            prompt_tokens: number;
            /** Format: int64 */
            completion_tokens: number;
            /** Format: int64 */
            total_tokens: number;
            /**
             * Format: int64
             * @description The part of `prompt_tokens` that came from the providers' caches.
             */
            cached_tokens: number;
            /**
             * Format: int64
             * @description The part of `completion_tokens` that the models spent on thinking.
             */
            reasoning_tokens: number;
            /**
             * Format: double
             * @description The sum of the calls whose price is known.
             */
            cost_usd: number;
            /** @description Whether the price of every call is known. */
            cost_known: boolean;
        };
        UserAnswer: {
            question_id: components["schemas"]["GlobalMessageId"];
            answer: string;
        };
        /** @description One frame of the stream of all sessions. */
        UserEventFrame: {
            /** @description What to come back with. It has no meaning for readers. */
            id: string;
            /** @description The type of the event. */
            event?: string;
            /** @description An event. The first frame has none. */
            data?: string;
        };
        /**
         * Format: int64
         * @description A person, as named by a token's `sub`: a positive integer.
         */
        UserId: number;
        /** @description A decision or an answer that a session waits for. */
        Waiting: {
            kind: components["schemas"]["WaitingKind"];
            call_id: components["schemas"]["CallId"];
            /** @description Who asks. */
            agent: components["schemas"]["AgentName"];
            /** @description What it is about, in one line. */
            text: string;
            created_at?: components["schemas"]["Timestamp"] | null;
            expires_at?: components["schemas"]["Timestamp"] | null;
        };
        /** @description A content that does not count before a person trusts it. */
        WaitingContent: {
            kind: components["schemas"]["BroughtKind"];
            /** @description Within the workspace; of a skill, its folder. */
            path: string;
            digest: components["schemas"]["Digest"];
            /** Format: int64 */
            bytes: number;
            /** @description Another content of this path was trusted before. */
            changed?: boolean;
            /** @description The text as the file has it; of a skill, its `SKILL.md`. */
            content: string;
            /** @description The content is left out because it is too long to be sent. It can be trusted where it is. */
            truncated?: boolean;
            /** @description The files of a skill's folder. */
            parts?: components["schemas"]["BroughtPart"][];
            /** @description A person trusted it in the page; the client has not taken that up yet. */
            decided?: boolean;
        };
        /** @description Something that waits, and where. */
        WaitingInSession: components["schemas"]["Waiting"] & {
            session_id: components["schemas"]["SessionId"];
            project_id: components["schemas"]["ProjectId"];
            /** @description Of the session. */
            title?: string | null;
        };
        /** @enum {string} */
        WaitingKind: "tool" | "plan" | "budget" | "question";
        WaitingList: {
            /** @description Oldest first. */
            waiting: components["schemas"]["WaitingInSession"][];
        };
        WaitingRemoved: {
            call_id: components["schemas"]["CallId"];
        };
        WorkflowCompleted: {
            plan_id: components["schemas"]["PlanId"];
            workflow_id: components["schemas"]["WorkflowId"];
            status: components["schemas"]["WorkflowStatus"];
            response: string;
            message_id?: components["schemas"]["MessageId"] | null;
            usage?: components["schemas"]["Usage"] | null;
        };
        /** @description A plan being executed. */
        WorkflowId: string;
        /** @enum {string} */
        WorkflowStatus: "completed" | "partial" | "failed" | "cancelled";
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
