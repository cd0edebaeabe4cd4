import { createHmac } from 'node:crypto';
import type { WebhookChannel } from './channel.ts';
import { factsOf, headlineOf, type Notice } from './notice.ts';

const LINK_TEXT = 'Open at the desk';

/** Slack: Block Kit. `plain_text` objects are not parsed for mentions or links. */
function slackBody(notice: Notice): object {
  const plain = (text: string) => ({ type: 'plain_text', text, emoji: false });
  return {
    text: headlineOf(notice),
    blocks: [
      { type: 'header', text: plain(headlineOf(notice)) },
      { type: 'section', text: plain(notice.data.summary || ' ') },
      { type: 'section', fields: factsOf(notice).map(([name, value]) => plain(`${name}: ${value}`)) },
      { type: 'actions', elements: [{ type: 'button', text: plain(LINK_TEXT), url: notice.data.url }] },
    ],
  };
}

/** Text blocks and facts of Adaptive Cards read a subset of Markdown. */
const teamsText = (text: string): string => text.replace(/[\\`*_{}[\]()#+\-.!~>|<&]/g, '\\$&');

/** Microsoft Teams: an Adaptive Card, as the Workflows webhook takes it. */
function teamsBody(notice: Notice): object {
  const content = {
    $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
    type: 'AdaptiveCard',
    version: '1.4',
    body: [
      { type: 'TextBlock', text: headlineOf(notice), weight: 'Bolder', size: 'Medium', wrap: true },
      { type: 'TextBlock', text: teamsText(notice.data.summary), fontType: 'Monospace', wrap: true },
      { type: 'FactSet', facts: factsOf(notice).map(([title, value]) => ({ title, value: teamsText(value) })) },
    ],
    actions: [{ type: 'Action.OpenUrl', title: LINK_TEXT, url: notice.data.url }],
  };
  return { type: 'message', attachments: [{ contentType: 'application/vnd.microsoft.card.adaptive', content }] };
}

/** Feishu: an interactive card; signed by timestamp and secret when the robot has one. */
function feishuBody(notice: Notice, nowMs: number, secret: string | undefined): object {
  const plain = (content: string) => ({ tag: 'plain_text', content });
  const timestamp = String(Math.floor(nowMs / 1_000));
  const signature =
    secret === undefined
      ? {}
      : { timestamp, sign: createHmac('sha256', `${timestamp}\n${secret}`).update('').digest('base64') };
  return {
    ...signature,
    msg_type: 'interactive',
    card: {
      header: { title: plain(headlineOf(notice)) },
      elements: [
        { tag: 'div', text: plain(notice.data.summary || ' ') },
        ...factsOf(notice).map(([name, value]) => ({ tag: 'div', text: plain(`${name}: ${value}`) })),
        {
          tag: 'action',
          actions: [{ tag: 'button', text: plain(LINK_TEXT), type: 'primary', url: notice.data.url }],
        },
      ],
    },
  };
}

/** The request body of a channel's template. `secret` is used by `feishu` alone. */
export function webhookBody(
  template: WebhookChannel['template'],
  notice: Notice,
  nowMs: number,
  secret: string | undefined,
): string {
  switch (template) {
    case 'slack':
      return JSON.stringify(slackBody(notice));
    case 'teams':
      return JSON.stringify(teamsBody(notice));
    case 'feishu':
      return JSON.stringify(feishuBody(notice, nowMs, secret));
    case 'standard':
      return JSON.stringify(notice);
  }
}
